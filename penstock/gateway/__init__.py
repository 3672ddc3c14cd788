"""The gateway: which version of a document wins, what it was before, and what views are told of it."""

from penstock.gateway.document_reader import Block, TableReader, Tails
from penstock.gateway.generation_scan import TableSweep
from penstock.gateway.intake.intake import REJECTED, Deletion, Report, TableBatch
from penstock.gateway.intake.received_records import MOST_RECEIVED, Form, Received
from penstock.gateway.intake.rejected_records import (
    QUARANTINE,
    Reject,
    counted,
    keep_rejected,
    read_rejects,
    rejects_db,
    rejects_from,
    release,
    without_tails,
)
from penstock.gateway.line_replay import carry_over
from penstock.gateway.lines.line_numbers import first_numbers, moved_db
from penstock.gateway.lines.stored_lines import Patched, Unwrapped, is_wrapped, unwrap
from penstock.gateway.lines.tombstone_limit import forgettable
from penstock.gateway.partitioned_reader import SpannedTable, TableReading
from penstock.gateway.refresh.table_refresh import retell
from penstock.gateway.refresh.view_refresh import rest, tell_again
from penstock.gateway.repeat_notes import carry_repeats, note_repeats, repeated_db, repeated_keys
from penstock.gateway.supersession import superseded
from penstock.gateway.table_databases import CHECKING, META_PLACE, table_places
from penstock.gateway.table_node import TableNode
from penstock.gateway.versions.version_stamps import NUMBER, Stamps, kind_of, stamps_of
from penstock.gateway.versions.winners import Outcome
from penstock.gateway.view_deltas import Next, document_of, key_of, key_value

__all__ = [
    "CHECKING",
    "META_PLACE",
    "MOST_RECEIVED",
    "NUMBER",
    "QUARANTINE",
    "REJECTED",
    "Block",
    "Deletion",
    "Form",
    "Next",
    "Outcome",
    "Patched",
    "Received",
    "Reject",
    "Report",
    "SpannedTable",
    "Stamps",
    "TableBatch",
    "TableNode",
    "TableReader",
    "TableReading",
    "TableSweep",
    "Tails",
    "Unwrapped",
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
    "moved_db",
    "note_repeats",
    "read_rejects",
    "rejects_db",
    "rejects_from",
    "release",
    "repeated_db",
    "repeated_keys",
    "rest",
    "retell",
    "stamps_of",
    "superseded",
    "table_places",
    "tell_again",
    "unwrap",
    "without_tails",
]
