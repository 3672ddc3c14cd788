"""The kinds of runs: "fused" and "joined" in one store, delivery modes of several partitions, "connector".

"joined-partitions" runs the app with joins over several partitions.

Each kind runs a seed. For a failure it returns the finding, the command that replays it, and the story of the smallest
run that still fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from penstock.testing.connector.connector_plan import connector_plan
from penstock.testing.connector.connector_run import attempt_connector, explained_connector, smallest_connector
from penstock.testing.inputs.joined_trial import altered, chained, held, joined, joined_early, layered
from penstock.testing.inputs.trial_apps import Trial, trial_of, trials
from penstock.testing.partitions.partitioned_run import (
    attempt_partitioned,
    explained_partitioned,
    partitioned_run_of,
    smallest_partitioned,
)
from penstock.testing.seeds.explanation import explained
from penstock.testing.seeds.seed_search import Totals, attempt, smallest
from penstock.testing.simulator.app_changes import variants_of
from penstock.views import DeliveryMode

TRIALS = trials()
JOINED = tuple(replace(own, others=variants_of(own.app)) for own in (joined(), chained(), layered(), held()))
PARTITIONED_JOINED = (joined(), joined_early(), chained(), layered(), altered())


@dataclass(frozen=True, slots=True)
class Found:
    """The failure of a seed: the app, the finding, the replay command, and the story."""

    app: str
    what: str
    replay: str
    story: Callable[[], str]


def _fused(seed: int, totals: Totals) -> Found | None:
    return _in_one_store(seed, totals, TRIALS, "")


def _joined(seed: int, totals: Totals) -> Found | None:
    return _in_one_store(seed, totals, JOINED, " --kind joined")


def _in_one_store(seed: int, totals: Totals, trials: Sequence[Trial], kind: str) -> Found | None:
    trial, plan = trial_of(seed, trials)
    failure = attempt(trial.app, plan, totals)
    if failure is None:
        return None
    replay = f"python -m penstock.testing{kind} --seed {seed}"
    return Found(
        trial.name, str(failure.wrong.first), replay, lambda: explained(trial.app, smallest(trial.app, failure))
    )


def _partitioned(production: DeliveryMode, trials: Sequence[Trial], kind: str) -> Callable[[int, Totals], Found | None]:
    def found(seed: int, totals: Totals) -> Found | None:
        trial, plan = partitioned_run_of(seed, trials, production)
        failure = attempt_partitioned(trial.app, plan, totals)
        if failure is None:
            return None
        replay = f"python -m penstock.testing --kind {kind} --seed {seed}"
        return Found(
            trial.name,
            str(failure.wrong.first),
            replay,
            lambda: explained_partitioned(smallest_partitioned(trial.app, failure)),
        )

    return found


def _connector(seed: int, totals: Totals) -> Found | None:
    failure = attempt_connector(connector_plan(seed), totals)
    if failure is None:
        return None
    replay = f"python -m penstock.testing --kind connector --seed {seed}"
    return Found(
        "two-phase commit",
        str(failure.wrong.first),
        replay,
        lambda: explained_connector(smallest_connector(failure)),
    )


KINDS: dict[str, Callable[[int, Totals], Found | None]] = {
    "fused": _fused,
    "joined": _joined,
    "joined-partitions": _partitioned(DeliveryMode.STRONG, PARTITIONED_JOINED, "joined-partitions"),
    **{production.value: _partitioned(production, TRIALS, production.value) for production in DeliveryMode},
    "connector": _connector,
}
"""By name, the function that runs a seed and returns its failure."""
