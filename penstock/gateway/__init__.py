"""The gateway: which version of a document wins, what it was before, and what views are told of it."""

from penstock.gateway.again import rest, tell_again
from penstock.gateway.carrying import carry_over
from penstock.gateway.intake import REJECTED, Deletion, Report, TableBatch
from penstock.gateway.lines import Patched, Unwrapped, is_wrapped, unwrap
from penstock.gateway.moved import first_numbers, moved_db
from penstock.gateway.places import CHECKING, META_PLACE, table_places
from penstock.gateway.reader import Block, TableReader, Tails
from penstock.gateway.reading import SpannedTable, TableReading
from penstock.gateway.received import MOST_RECEIVED, Form, Received
from penstock.gateway.repeats import carry_repeats, note_repeats, repeated_db, repeated_keys
from penstock.gateway.retelling import retell
from penstock.gateway.stamps import NUMBER, Stamps, kind_of, stamps_of
from penstock.gateway.superseded import superseded
from penstock.gateway.sweeping import TableSweep
from penstock.gateway.table import TableNode
from penstock.gateway.telling import Next, document_of, key_of, key_value
from penstock.gateway.tombstones import forgettable
from penstock.gateway.versions import Outcome

__all__ = [
    "CHECKING",
    "META_PLACE",
    "MOST_RECEIVED",
    "NUMBER",
    "REJECTED",
    "Block",
    "Deletion",
    "Form",
    "Next",
    "Outcome",
    "Patched",
    "Received",
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
    "document_of",
    "first_numbers",
    "forgettable",
    "is_wrapped",
    "key_of",
    "key_value",
    "kind_of",
    "moved_db",
    "note_repeats",
    "repeated_db",
    "repeated_keys",
    "rest",
    "retell",
    "stamps_of",
    "superseded",
    "table_places",
    "tell_again",
    "unwrap",
]
