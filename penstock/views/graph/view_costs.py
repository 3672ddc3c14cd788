"""A view in words: its groups and results, the rows that it keeps, and the cost of an update."""

from __future__ import annotations

from penstock.views.definitions import View
from penstock.views.graph.definition_graph import groups_text, is_in_tree, reducers_text
from penstock.views.join_definitions import Join
from penstock.views.view_maps import FieldMap

__all__ = ["view_costs"]


def view_costs(view: View) -> list[tuple[str, str]]:
    """Return the facts of a view as pairs of a name and a sentence."""
    return [
        ("groups", groups_text(view)),
        ("result", reducers_text(view)),
        ("kept as", _stored_line(view)),
        ("an update", _update(view)),
        ("runs", _runs(view)),
    ]


def _stored_line(view: View) -> str:
    if view.index:
        return "index: each contribution is a row, (group, key, rank) and the value"
    if not is_in_tree(view):
        return "accumulator: one row per group, from which contributions can be retracted"
    return "tree: a group's contributions, folded along a tree whose shape follows from them alone"


def _update(view: View) -> str:
    if view.index:
        cost = "writes a row for each contribution that is added, removed or changed"
    elif not is_in_tree(view):
        cost = "reads and writes one row for each group that it touches, whatever the group's size"
    else:
        cost = "reads and writes one path of the tree for each group that it touches; a small group is one node"
    emission = "" if isinstance(view.map, FieldMap) else "; the emission of the function is stored with the document"
    return cost + emission


def _runs(view: View) -> str:
    if isinstance(view.source, View | Join):
        return f"once for each row of {view.source.name} that changes"
    by_fields = isinstance(view.map, FieldMap)
    return "over columns, without Python for a document" if by_fields else "a Python call for each document"
