"""The engine: opens a store, wires the rooms, and takes what users put."""

from penstock.engine.compaction import Compacted, Progress
from penstock.engine.copies import Copied, copy_of, restore, shrink
from penstock.engine.core import Core
from penstock.engine.engine import Engine
from penstock.engine.group import Ticket
from penstock.engine.handover import memory_of_holder, writer
from penstock.engine.opening import open_engine, open_on
from penstock.engine.snapshot import Snapshot
from penstock.engine.told import Stored, Told
from penstock.engine.transaction import Transaction
from penstock.engine.weigh import Weight
from penstock.engine.writing import HolderLost, HolderSilent, Writing, parted

__all__ = [
    "Compacted",
    "Copied",
    "Core",
    "Engine",
    "HolderLost",
    "HolderSilent",
    "Progress",
    "Snapshot",
    "Stored",
    "Ticket",
    "Told",
    "Transaction",
    "Weight",
    "Writing",
    "copy_of",
    "memory_of_holder",
    "open_engine",
    "open_on",
    "parted",
    "restore",
    "shrink",
    "writer",
]
