"""Names of damaged places in the databases of a view."""

from __future__ import annotations

from penstock.cache import Place, key_shown, number_shown
from penstock.mapreduce.nodes.node_levels import SUFFIX
from penstock.mapreduce.trees.snapshot_nodes import behind_db, nodes_db
from penstock.mapreduce.view_databases import held_db, resting_db, rows_db, told_db
from penstock.views import restating

__all__ = ["view_places"]


def view_places(name: str, number: int, of_rows: bool) -> dict[str, Place]:
    """Return by database the names for messages. `of_rows`: the view reads rows of another view."""
    words, step = f"view {name!r}", restating(name)
    group, key = key_shown("group"), key_shown("row" if of_rows else "document")
    return {
        words: Place(words, group, step),
        rows_db(number): Place(words, group, step),
        told_db(number): Place(f"{words}, what it was told", key if of_rows else number_shown("log entry"), step),
        held_db(number): Place(f"{words}, what it holds", key, step),
        resting_db(number): Place(f"{words}, what rests", key, step),
        nodes_db(number): Place(f"{words}, its trees", lambda address: group(address[:-SUFFIX]), step),
        behind_db(number): Place(f"{words}, what its trees are behind by", number_shown("entry"), step),
    }
