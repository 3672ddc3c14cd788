"""Join documents of two sides by equal condition values: entries in columns, rows that go and come, the side index."""

from penstock.join.conditions import NULL_CODE, ConditionKeys, Conditions
from penstock.join.entry_pages import changes_payload, read_changes
from penstock.join.join_node import JoinNode, JoinNodes
from penstock.join.join_parts import FIRST_PLACE, JoinPart, JoinParts
from penstock.join.joined_columns import (
    RowColumns,
    ViewColumns,
    encoded_keys,
    row_documents,
    row_keys,
    row_sources,
    selected,
)
from penstock.join.joined_rows import (
    How,
    JoinChange,
    JoinedRows,
    KeptEntries,
    LimitedValue,
    SideChange,
    joined_changes,
)
from penstock.join.joined_view import row_plan, send_rows
from penstock.join.page_fold import fill_pages
from penstock.join.product import BLOCK
from penstock.join.side_check import check_side, side_digest
from penstock.join.side_entries import Entries, Ints, Positions
from penstock.join.side_index import SideIndex, SideKept, join_dbs, side_dbs, side_pages_db
from penstock.join.side_node import KeySideKept, LookUp, SideNode, entry_owners
from penstock.join.sorted_runs import EntryChanges, changed_entries
from penstock.join.stored_join import (
    LimitHold,
    SideDocuments,
    StoredJoin,
    StoredSide,
    held_values,
    put_limit_holds,
    row_sides,
)

__all__ = [
    "BLOCK",
    "FIRST_PLACE",
    "NULL_CODE",
    "ConditionKeys",
    "Conditions",
    "Entries",
    "EntryChanges",
    "How",
    "Ints",
    "JoinChange",
    "JoinNode",
    "JoinNodes",
    "JoinPart",
    "JoinParts",
    "JoinedRows",
    "KeptEntries",
    "KeySideKept",
    "LimitHold",
    "LimitedValue",
    "LookUp",
    "Positions",
    "RowColumns",
    "SideChange",
    "SideDocuments",
    "SideIndex",
    "SideKept",
    "SideNode",
    "StoredJoin",
    "StoredSide",
    "ViewColumns",
    "changed_entries",
    "changes_payload",
    "check_side",
    "encoded_keys",
    "entry_owners",
    "fill_pages",
    "held_values",
    "join_dbs",
    "joined_changes",
    "put_limit_holds",
    "read_changes",
    "row_documents",
    "row_keys",
    "row_plan",
    "row_sides",
    "row_sources",
    "selected",
    "send_rows",
    "side_dbs",
    "side_digest",
    "side_pages_db",
]
