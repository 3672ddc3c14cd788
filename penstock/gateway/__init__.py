"""The gateway of a table: pick the winning version of each document and send deltas to the views."""

from penstock.gateway.document_reader import LineBlock, TableReader, Tails
from penstock.gateway.generation_scan import GenerationScan
from penstock.gateway.intake.intake import REJECTED, Deletion, IntakeReport, TableBatch, take_in
from penstock.gateway.intake.received_records import MOST_RECEIVED, Form, ReceivedRecord
from penstock.gateway.intake.rejected_records import (
    QUARANTINE,
    RejectedRecord,
    counted,
    keep_rejected,
    read_rejects,
    rejects_db,
    rejects_from,
    release,
    without_tails,
)
from penstock.gateway.line_replay import carry_over
from penstock.gateway.lines.line_numbers import first_numbers, moved_lines_db
from penstock.gateway.lines.stored_lines import PatchedDocument, StoredLine, is_wrapped, stamped_line, unwrap
from penstock.gateway.lines.tombstone_limit import forgettable
from penstock.gateway.refill_repeats import carry_repeats, record_repeats, repeated_db, repeated_keys
from penstock.gateway.refresh.held_documents import refresh_view, rest
from penstock.gateway.refresh.table_refresh import refresh_documents
from penstock.gateway.sides.key_side import KeySide
from penstock.gateway.sides.side_documents import TableSideDocuments
from penstock.gateway.sides.side_rows import JoinSideDocuments, RowSideDocuments
from penstock.gateway.supersession import superseded
from penstock.gateway.table_databases import CHECKING, META_PLACE, table_labels
from penstock.gateway.table_node import TableNode
from penstock.gateway.table_readers import PartitionedTable, TableReading
from penstock.gateway.versions.precedence import Outcome
from penstock.gateway.versions.version_stamps import NUMBER, Stamps, kind_of, stamps_of
from penstock.gateway.view_deltas import DeltaSides, ViewDeltas, WinningVersions, document_of, key_of, key_value

__all__ = [
    "CHECKING",
    "META_PLACE",
    "MOST_RECEIVED",
    "NUMBER",
    "QUARANTINE",
    "REJECTED",
    "Deletion",
    "DeltaSides",
    "Form",
    "GenerationScan",
    "IntakeReport",
    "JoinSideDocuments",
    "KeySide",
    "LineBlock",
    "Outcome",
    "PartitionedTable",
    "PatchedDocument",
    "ReceivedRecord",
    "RejectedRecord",
    "RowSideDocuments",
    "Stamps",
    "StoredLine",
    "TableBatch",
    "TableNode",
    "TableReader",
    "TableReading",
    "TableSideDocuments",
    "Tails",
    "ViewDeltas",
    "WinningVersions",
    "carry_over",
    "carry_repeats",
    "counted",
    "document_of",
    "first_numbers",
    "forgettable",
    "is_wrapped",
    "keep_rejected",
    "key_of",
    "key_value",
    "kind_of",
    "moved_lines_db",
    "read_rejects",
    "record_repeats",
    "refresh_documents",
    "refresh_view",
    "rejects_db",
    "rejects_from",
    "release",
    "repeated_db",
    "repeated_keys",
    "rest",
    "stamped_line",
    "stamps_of",
    "superseded",
    "table_labels",
    "take_in",
    "unwrap",
    "without_tails",
]
