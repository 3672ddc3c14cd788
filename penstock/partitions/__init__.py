"""A store of several partitions: handles, processes and routing."""

from penstock.partitions.app_transfer import AppTransfer, importable, transferred
from penstock.partitions.cached_offsets import SourcePositions
from penstock.partitions.copies.partitioned_copies import copy_any
from penstock.partitions.copies.repartition_job import Repartitioned, repartition
from penstock.partitions.copies.store_copies import Copied, copy_of, copy_size, shrink
from penstock.partitions.copies.store_restore import restore, restore_any
from penstock.partitions.exchange.exchange import PartitionExchange, guard_of
from penstock.partitions.handle_protocol import PartitionHandle
from penstock.partitions.member import Marks, Member, MemberStatus, Tables
from penstock.partitions.partition_catalogs import catalogs_of
from penstock.partitions.partition_operations import ALL_OPERATIONS
from penstock.partitions.partition_process import PartitionProcess, evict
from penstock.partitions.record_router import Routed, Router, after
from penstock.partitions.start_message import StartMessage, read_message
from penstock.partitions.state.local_copy import LocalCopy
from penstock.partitions.state.report_check import misfit
from penstock.partitions.state.state_client import StateClient, StateStart
from penstock.partitions.state.state_files import LocalStateFiles, StateFileMissing, StateFiles
from penstock.partitions.state.state_operations import (
    END_STAGE,
    RECEIVE_STAGE,
    STATE_OPERATIONS,
    STOP_PROCESS,
    TAKE_STAGE,
    WRITE_SNAPSHOT,
)
from penstock.partitions.state.state_partition import OffsetMoved, OffsetRange, StatePartition, TurnElsewhere
from penstock.partitions.state.turns import (
    BatchTurn,
    Blob,
    OldTurn,
    Report,
    SnapshotFile,
    StateVersion,
    Taken,
    changelog_name,
    snapshot_name,
)
from penstock.partitions.transport.atomic_batches import AtomicBatches, BatchWaits
from penstock.partitions.transport.local_delivery import REFUSED, at_rest, delivered_productions, join
from penstock.partitions.transport.process_delivery import DeliveryThread
from penstock.partitions.union.union_feed import follow_all
from penstock.partitions.union.union_quarantine import PartitionedRetries
from penstock.partitions.union.union_repair_site import PartitionedSite
from penstock.partitions.union.union_snapshot import PartitionedSnapshot, Switching, snapshots_at_rest
from penstock.partitions.union.view_building import PartitionedBuilding, ServedStore

__all__ = [
    "ALL_OPERATIONS",
    "END_STAGE",
    "RECEIVE_STAGE",
    "REFUSED",
    "STATE_OPERATIONS",
    "STOP_PROCESS",
    "TAKE_STAGE",
    "WRITE_SNAPSHOT",
    "AppTransfer",
    "AtomicBatches",
    "BatchTurn",
    "BatchWaits",
    "Blob",
    "Copied",
    "DeliveryThread",
    "LocalCopy",
    "LocalStateFiles",
    "Marks",
    "Member",
    "MemberStatus",
    "OffsetMoved",
    "OffsetRange",
    "OldTurn",
    "PartitionExchange",
    "PartitionHandle",
    "PartitionProcess",
    "PartitionedBuilding",
    "PartitionedRetries",
    "PartitionedSite",
    "PartitionedSnapshot",
    "Repartitioned",
    "Report",
    "Routed",
    "Router",
    "ServedStore",
    "SnapshotFile",
    "SourcePositions",
    "StartMessage",
    "StateClient",
    "StateFileMissing",
    "StateFiles",
    "StatePartition",
    "StateStart",
    "StateVersion",
    "Switching",
    "Tables",
    "Taken",
    "TurnElsewhere",
    "after",
    "at_rest",
    "catalogs_of",
    "changelog_name",
    "copy_any",
    "copy_of",
    "copy_size",
    "delivered_productions",
    "evict",
    "follow_all",
    "guard_of",
    "importable",
    "join",
    "misfit",
    "read_message",
    "repartition",
    "restore",
    "restore_any",
    "shrink",
    "snapshot_name",
    "snapshots_at_rest",
    "transferred",
]
