"""A store of several partitions: handles, processes and routing."""

from penstock.partitions.app_transfer import Shipped, importable, shipped
from penstock.partitions.copies.repartition_job import Repartitioned, repartition
from penstock.partitions.copies.store_copies import Copied, copy_of, copy_size, restore, shrink
from penstock.partitions.copies.union_copies import copy_any, restore_any
from penstock.partitions.exchange.exchange import Parting, guard_of
from penstock.partitions.handle_protocol import PartitionHandle
from penstock.partitions.member import Marks, Member, Standing, Tables
from penstock.partitions.partition_catalogs import catalogs_of
from penstock.partitions.partition_operations import ALL_OPERATIONS
from penstock.partitions.partition_process import PartitionProcess, evict
from penstock.partitions.routing import Routed, Router, after
from penstock.partitions.source_positions import Stands
from penstock.partitions.start_message import StartMessage, read_message
from penstock.partitions.transport.delivery import REFUSED, at_rest, carried, join
from penstock.partitions.transport.delivery_thread import Courier
from penstock.partitions.transport.saved_batches import BatchWaits, SavedBatches
from penstock.partitions.union.union_feed import follow_all
from penstock.partitions.union.union_quarantine import PartedReleasing
from penstock.partitions.union.union_repair_site import PartedSite
from penstock.partitions.union.union_snapshot import SpannedSnapshot, Switching, settled
from penstock.partitions.union.view_building import PartitionedBuilding, ServedStore

__all__ = [
    "ALL_OPERATIONS",
    "REFUSED",
    "BatchWaits",
    "Copied",
    "Courier",
    "Marks",
    "Member",
    "PartedReleasing",
    "PartedSite",
    "Parting",
    "PartitionHandle",
    "PartitionProcess",
    "PartitionedBuilding",
    "Repartitioned",
    "Routed",
    "Router",
    "SavedBatches",
    "ServedStore",
    "Shipped",
    "SpannedSnapshot",
    "Standing",
    "Stands",
    "StartMessage",
    "Switching",
    "Tables",
    "after",
    "at_rest",
    "carried",
    "catalogs_of",
    "copy_any",
    "copy_of",
    "copy_size",
    "evict",
    "follow_all",
    "guard_of",
    "importable",
    "join",
    "read_message",
    "repartition",
    "restore",
    "restore_any",
    "settled",
    "shipped",
    "shrink",
]
