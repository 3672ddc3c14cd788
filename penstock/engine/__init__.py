"""The engine: opens a store, wires the rooms, and takes what users put."""

from penstock.engine.engine import Engine, Transaction
from penstock.engine.group import Ticket
from penstock.engine.opening import open_engine
from penstock.engine.snapshot import Snapshot

__all__ = ["Engine", "Snapshot", "Ticket", "Transaction", "open_engine"]
