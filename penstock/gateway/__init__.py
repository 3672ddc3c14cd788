"""The gateway: which version of a document wins, what it was before, and what views are told of it."""

from penstock.gateway.intake import REJECTED, Deletion, Report, TableBatch
from penstock.gateway.lines import Patched, Unwrapped, unwrap
from penstock.gateway.reader import TableReader, Tails
from penstock.gateway.table import TableNode
from penstock.gateway.telling import document_of, key_of, key_value
from penstock.gateway.versions import Outcome

__all__ = [
    "REJECTED",
    "Deletion",
    "Outcome",
    "Patched",
    "Report",
    "TableBatch",
    "TableNode",
    "TableReader",
    "Tails",
    "Unwrapped",
    "document_of",
    "key_of",
    "key_value",
    "unwrap",
]
