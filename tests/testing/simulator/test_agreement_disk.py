"""Run the simulated store through the state machine that tests LMDB and the store in memory."""

from hypothesis import settings

from penstock.cache import Store
from penstock.testing.simulator.disk import Disk
from penstock.testing.simulator.faults import Points
from tests.cache.store.test_agreement_store import Machine


class SimulatedMachine(Machine):
    """The simulated store without faults."""

    def open(self) -> Store:
        return Disk(Points()).open()


TestSimulated = SimulatedMachine.TestCase
TestSimulated.settings = settings(max_examples=30)
