"""The databases of a view. Each generation has its own, named by its number."""

from __future__ import annotations

from penstock.mapreduce.trees.snapshot_nodes import node_log_db, nodes_db

__all__ = ["emissions_db", "held_db", "late_db", "resting_db", "rows_db", "view_dbs"]


def rows_db(view: int) -> str:
    """Return the name of the database of a view's rows."""
    return f"view:{view}"


def emissions_db(view: int) -> str:
    """Return the name of the database of a function view's remembered emissions."""
    return f"told:{view}"


def held_db(view: int) -> str:
    """Return the name of the database of rows or documents that a view holds."""
    return f"held:{view}"


def resting_db(view: int) -> str:
    """Return the name of the database of held documents that rest until their next version."""
    return f"resting:{view}"


def late_db(view: int) -> str:
    """Return the name of the database of late records that a view set aside."""
    return f"late:{view}"


def view_dbs(view: int) -> list[str]:
    """Return the names of all databases that a view may have."""
    return [name(view) for name in (rows_db, emissions_db, held_db, resting_db, nodes_db, node_log_db, late_db)]
