"""The engine: opens a store, wires the rooms, and takes what users put."""

from penstock.core import (
    Batch,
    Catalog,
    Compacted,
    Core,
    Follower,
    ForeignPartition,
    Progress,
    Resume,
    Scrubbing,
    Settings,
    Snapshot,
    State,
    Stored,
    Told,
    Transaction,
    Weight,
    batches_of,
    complete_switches,
    damaged_pages_at,
    delivered,
    described,
    is_store,
    layout_of,
    must_be_whole,
    partitions_of,
    read_catalog,
    read_state,
    write_notes,
    write_state,
)
from penstock.engine.engine import Engine
from penstock.engine.group_commit import Ticket
from penstock.engine.one_store import OneStore
from penstock.engine.opening import open_engine
from penstock.engine.partitioned_store import PartitionedStore
from penstock.engine.store_opening import open_on, open_partition
from penstock.engine.writers.failover import Failover
from penstock.engine.writers.open_writer import memory_of_holder, writer
from penstock.engine.writers.standby_writer import LOST, Loads, StandbyWriter
from penstock.generations import Concert, Refilled, Swept, Switch, concerted
from penstock.partitions.app_transfer import Shipped, importable, shipped
from penstock.partitions.copies.repartition_job import Repartitioned, repartition
from penstock.partitions.copies.store_copies import Copied, copy_of, copy_size, restore, shrink
from penstock.partitions.copies.union_copies import copy_any, restore_any
from penstock.partitions.exchange.exchange import Parting, guard_of
from penstock.partitions.handle_protocol import PartitionHandle
from penstock.partitions.member import Marks, Member, Tables
from penstock.partitions.member import Standing as MemberStanding
from penstock.partitions.transport.saved_batches import BatchWaits, SavedBatches
from penstock.partitions.union.union_snapshot import SpannedSnapshot, Switching, settled
from penstock.remote import HolderLost, HolderSilent, Writer, parted, post

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
    "OneStore",
    "Parting",
    "PartitionHandle",
    "PartitionedStore",
    "Progress",
    "Refilled",
    "Repartitioned",
    "Resume",
    "SavedBatches",
    "Scrubbing",
    "Settings",
    "Shipped",
    "Snapshot",
    "SpannedSnapshot",
    "StandbyWriter",
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
    "Writer",
    "batches_of",
    "complete_switches",
    "concerted",
    "copy_any",
    "copy_of",
    "copy_size",
    "damaged_pages_at",
    "delivered",
    "described",
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
    "post",
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
