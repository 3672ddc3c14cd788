"""One partition: its catalog, and the transaction that takes a batch."""

from penstock.core.cache_budget import MEMORY
from penstock.core.commit import Core
from penstock.core.damage_names import database_labels
from penstock.core.feed_log import CHANGES
from penstock.core.generation_switch import (
    complete_switches,
    databases_of,
    decides,
    finished,
    former_catalog,
    is_ready,
    must_complete,
    switch_refill,
    switched,
    switched_sides,
    without_filling,
)
from penstock.core.hidden_generation_writes import hidden_transaction, write_hidden
from penstock.core.hold_retries import retry_holds
from penstock.core.input.batches import ONE, Batch, batches_of, delivered, input_rows, line_of
from penstock.core.input.decode_ahead import helped
from penstock.core.input.document_size import MOST_BYTES, sized
from penstock.core.input.fair_lock import FairLock
from penstock.core.input.meters import Meters
from penstock.core.input.open_state import OpenState
from penstock.core.input.source_fence import check_fence
from penstock.core.input.user_transaction import Transaction, counts_of, joined_records, offsets_of, rejects_in
from penstock.core.input.write_conditions import (
    ConditionFailed,
    Conditions,
    SessionGap,
    WriteResult,
    must_hold,
    number_documents,
    session_source,
)
from penstock.core.metadata.catalog import (
    BASES,
    BuildState,
    Catalog,
    CatalogEntry,
    NextGeneration,
    PartitionIdentity,
    Refill,
    RefillSwitch,
    catalog_of,
    catalog_row,
    forget_reindexed,
    is_reindexed,
    mark_reindexed,
    read_catalog,
    serving_sides,
    write_built,
    write_catalog,
)
from penstock.core.metadata.partition_identity import ForeignPartition, identity_of, must_be_alone, must_be_partition
from penstock.core.metadata.source_offsets import Resume, read_spout_state, write_spout_states
from penstock.core.metadata.store_format import FORMAT
from penstock.core.metadata.store_layout import (
    NAME,
    StoreLayout,
    WrongPartitions,
    is_store,
    layout_of,
    must_be_whole,
    partitions_of,
    read_layout,
    write_layout,
)
from penstock.core.metadata.store_state import StateRow, added, read_state, write_state
from penstock.core.protocol import Exchange
from penstock.core.reading.content_digest import digest_of
from penstock.core.reading.document_facts import DocumentFacts, ViewState, emissions_text
from penstock.core.reading.document_joins import DocumentJoin
from penstock.core.reading.feed_reader import (
    FeedReader,
    FeedRequest,
    Wait,
    follow,
    followable,
    reached,
    rows_of,
    saved_rows_of,
    steps_of,
)
from penstock.core.reading.generation_differences import differing
from penstock.core.reading.group_weights import Weight
from penstock.core.reading.join_weights import JoinWeight
from penstock.core.reading.scan_progress import Passed
from penstock.core.reading.store_snapshot import Consistency, Snapshot, must_be_known
from penstock.core.reading.visibility import add_span, read_spans, saved_position, with_early_set
from penstock.core.reading.why_answers import joined_rows
from penstock.core.schema import Described, Schema, built_of, described, is_built, row_sources
from penstock.core.settings import Scrubbing, Settings
from penstock.core.upkeep.page_check import PageReport, damaged_pages_at, must_be_sound, walk
from penstock.core.upkeep.scrub_result import ScrubResult, read_result
from penstock.core.upkeep.scrub_thread import ScrubbedEngine, start_scrubs
from penstock.core.upkeep.store_compaction import Compacted, Progress, compact
from penstock.core.upkeep.store_thread import StoreThread

__all__ = [
    "BASES",
    "CHANGES",
    "FORMAT",
    "MEMORY",
    "MOST_BYTES",
    "NAME",
    "ONE",
    "Batch",
    "BuildState",
    "Catalog",
    "CatalogEntry",
    "Compacted",
    "ConditionFailed",
    "Conditions",
    "Consistency",
    "Core",
    "Described",
    "DocumentFacts",
    "DocumentJoin",
    "Exchange",
    "FairLock",
    "FeedReader",
    "FeedRequest",
    "ForeignPartition",
    "JoinWeight",
    "Meters",
    "NextGeneration",
    "OpenState",
    "PageReport",
    "PartitionIdentity",
    "Passed",
    "Progress",
    "Refill",
    "RefillSwitch",
    "Resume",
    "Schema",
    "ScrubResult",
    "ScrubbedEngine",
    "Scrubbing",
    "SessionGap",
    "Settings",
    "Snapshot",
    "StateRow",
    "StoreLayout",
    "StoreThread",
    "Transaction",
    "ViewState",
    "Wait",
    "Weight",
    "WriteResult",
    "WrongPartitions",
    "add_span",
    "added",
    "batches_of",
    "built_of",
    "catalog_of",
    "catalog_row",
    "check_fence",
    "compact",
    "complete_switches",
    "counts_of",
    "damaged_pages_at",
    "database_labels",
    "databases_of",
    "decides",
    "delivered",
    "described",
    "differing",
    "digest_of",
    "emissions_text",
    "finished",
    "follow",
    "followable",
    "forget_reindexed",
    "former_catalog",
    "helped",
    "hidden_transaction",
    "identity_of",
    "input_rows",
    "is_built",
    "is_ready",
    "is_reindexed",
    "is_store",
    "joined_records",
    "joined_rows",
    "layout_of",
    "line_of",
    "mark_reindexed",
    "must_be_alone",
    "must_be_known",
    "must_be_partition",
    "must_be_sound",
    "must_be_whole",
    "must_complete",
    "must_hold",
    "number_documents",
    "offsets_of",
    "partitions_of",
    "reached",
    "read_catalog",
    "read_layout",
    "read_result",
    "read_spans",
    "read_spout_state",
    "read_state",
    "rejects_in",
    "retry_holds",
    "row_sources",
    "rows_of",
    "saved_position",
    "saved_rows_of",
    "serving_sides",
    "session_source",
    "sized",
    "start_scrubs",
    "steps_of",
    "switch_refill",
    "switched",
    "switched_sides",
    "walk",
    "with_early_set",
    "without_filling",
    "write_built",
    "write_catalog",
    "write_hidden",
    "write_layout",
    "write_spout_states",
    "write_state",
]
