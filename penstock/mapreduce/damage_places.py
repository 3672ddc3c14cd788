"""Names of damaged places in the databases of a view."""

from __future__ import annotations

from penstock.cache import DatabaseLabel, number_text, stored_key_text
from penstock.mapreduce.nodes.node_levels import SUFFIX
from penstock.mapreduce.trees.snapshot_nodes import node_log_db, nodes_db
from penstock.mapreduce.view_databases import emissions_db, held_db, late_db, resting_db, rows_db
from penstock.views import restating

__all__ = ["view_labels"]


def view_labels(name: str, number: int, of_rows: bool) -> dict[str, DatabaseLabel]:
    """Return by database the names for messages. `of_rows`: the view reads rows of another view."""
    words, step = f"view {name!r}", restating(name)
    source = "row" if of_rows else "document"
    group, key = stored_key_text("group"), stored_key_text(source)
    return {
        words: DatabaseLabel(words, group, step),
        rows_db(number): DatabaseLabel(words, group, step),
        emissions_db(number): DatabaseLabel(
            f"{words}, remembered emissions", key if of_rows else number_text("log entry"), step
        ),
        held_db(number): DatabaseLabel(f"{words}, held {source}s", key, step),
        resting_db(number): DatabaseLabel(f"{words}, resting {source}s", key, step),
        late_db(number): DatabaseLabel(f"{words}, late records", number_text("record"), step),
        nodes_db(number): DatabaseLabel(f"{words}, its trees", lambda address: group(address[:-SUFFIX]), step),
        node_log_db(number): DatabaseLabel(f"{words}, changes that its trees lack", number_text("entry"), step),
    }
