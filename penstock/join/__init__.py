"""Join documents of two sides by equal condition values: entries in columns, rows that go and come, the side index."""

from penstock.join.conditions import NULL_CODE, ConditionKeys, Conditions
from penstock.join.joined_rows import (
    How,
    JoinChange,
    JoinedRows,
    KeptEntries,
    LimitedValue,
    SideChange,
    joined_changes,
)
from penstock.join.product import BLOCK
from penstock.join.side_check import check_side, side_digest
from penstock.join.side_entries import Entries, Positions
from penstock.join.side_index import SideIndex, SideKept, side_dbs
from penstock.join.sorted_runs import EntryChanges, changed_entries

__all__ = [
    "BLOCK",
    "NULL_CODE",
    "ConditionKeys",
    "Conditions",
    "Entries",
    "EntryChanges",
    "How",
    "JoinChange",
    "JoinedRows",
    "KeptEntries",
    "LimitedValue",
    "Positions",
    "SideChange",
    "SideIndex",
    "SideKept",
    "changed_entries",
    "check_side",
    "joined_changes",
    "side_dbs",
    "side_digest",
]
