"""The engine: opens a store, wires the rooms, and takes what users put."""

from penstock.engine.agreed import open_on, open_partition
from penstock.engine.catalog import Catalog, Resume, State, read_catalog, read_state, write_notes, write_state
from penstock.engine.compaction import Compacted, Progress
from penstock.engine.concert import Concert, concerted
from penstock.engine.copies import Copied, copy_of, copy_size, restore, shrink
from penstock.engine.core import Core
from penstock.engine.documents import Batch, batches_of, delivered
from penstock.engine.engine import Engine
from penstock.engine.failover import Failover
from penstock.engine.following import Follower
from penstock.engine.group import Ticket
from penstock.engine.handover import memory_of_holder, writer
from penstock.engine.identity import ForeignPartition
from penstock.engine.layout import is_store, layout_of, must_be_whole, partitions_of
from penstock.engine.member import Marks, Member, Tables
from penstock.engine.member import Standing as MemberStanding
from penstock.engine.opening import open_engine
from penstock.engine.parted import Parted
from penstock.engine.partedcopies import copy_any, restore_any
from penstock.engine.parting import Parting, guard_of
from penstock.engine.refilling import Refilled
from penstock.engine.repartition import Repartitioned, repartition
from penstock.engine.saved_batches import BatchWaits, SavedBatches
from penstock.engine.scrub import damaged_pages_at
from penstock.engine.seat import Seat
from penstock.engine.settings import Scrubbing, Settings
from penstock.engine.shipped import Shipped, importable, shipped
from penstock.engine.snapshot import Snapshot
from penstock.engine.spanned import SpannedSnapshot, Switching, settled
from penstock.engine.spannedengine import SpannedEngine
from penstock.engine.standby import LOST, Loads, Standby
from penstock.engine.swept import Swept, Switch
from penstock.engine.switch import complete_switches
from penstock.engine.told import Stored, Told
from penstock.engine.transaction import Transaction
from penstock.engine.weigh import Weight
from penstock.engine.writing import HolderLost, HolderSilent, Writing, parted

__all__ = [
    "LOST",
    "Batch",
    "BatchWaits",
    "Catalog",
    "Compacted",
    "Concert",
    "Copied",
    "Core",
    "Engine",
    "Failover",
    "Follower",
    "ForeignPartition",
    "HolderLost",
    "HolderSilent",
    "Loads",
    "Marks",
    "Member",
    "MemberStanding",
    "Parted",
    "Parting",
    "Progress",
    "Refilled",
    "Repartitioned",
    "Resume",
    "SavedBatches",
    "Scrubbing",
    "Seat",
    "Settings",
    "Shipped",
    "Snapshot",
    "SpannedEngine",
    "SpannedSnapshot",
    "Standby",
    "State",
    "Stored",
    "Swept",
    "Switch",
    "Switching",
    "Tables",
    "Ticket",
    "Told",
    "Transaction",
    "Weight",
    "Writing",
    "batches_of",
    "complete_switches",
    "concerted",
    "copy_any",
    "copy_of",
    "copy_size",
    "damaged_pages_at",
    "delivered",
    "guard_of",
    "importable",
    "is_store",
    "layout_of",
    "memory_of_holder",
    "must_be_whole",
    "open_engine",
    "open_on",
    "open_partition",
    "parted",
    "partitions_of",
    "read_catalog",
    "read_state",
    "repartition",
    "restore",
    "restore_any",
    "settled",
    "shipped",
    "shrink",
    "write_notes",
    "write_state",
    "writer",
]
