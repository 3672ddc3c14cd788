"""The databases of a view: each generation has some of its own, by its number."""

from __future__ import annotations

from penstock.mapreduce.trees.snapshot_nodes import behind_db, nodes_db

__all__ = ["held_db", "resting_db", "rows_db", "told_db", "view_dbs"]


def rows_db(view: int) -> str:
    """The database of a view's rows."""
    return f"view:{view}"


def told_db(view: int) -> str:
    """The database of what a function view was told."""
    return f"told:{view}"


def held_db(view: int) -> str:
    """The database of what a view can't take."""
    return f"held:{view}"


def resting_db(view: int) -> str:
    """The database of those of the held documents that rest until their next version."""
    return f"resting:{view}"


def view_dbs(view: int) -> list[str]:
    """All that a view may have."""
    return [name(view) for name in (rows_db, told_db, held_db, resting_db, nodes_db, behind_db)]
