"""Batches of a source: their size, and the columns that a table needs of them."""

from __future__ import annotations

from penstock.cli.context import FAILED
from penstock.cli.exit_errors import ExitError
from penstock.spout import FileSpout, ParquetSpout
from penstock.views import Table

__all__ = ["LIMIT", "check_columns"]

LIMIT = 50_000  # records of a transaction
_COLUMNS = 12  # names of columns that an error lists


def check_columns(spout: FileSpout | ParquetSpout, path: str, table: Table, keys: bool = False) -> None:
    """Raise a fault if a column that the table needs is missing; with `keys` only the key is needed."""
    if spout.columns is None:
        return
    needed = [(parts[0], "the key") for parts in table.key.paths]
    if table.ts is not None and not keys:
        needed.append((table.ts[0], "the ts"))
    for name, use in needed:
        if name not in spout.columns:
            names = ", ".join(spout.columns[:_COLUMNS]) + (", …" if len(spout.columns) > _COLUMNS else "")
            correct = "write it with that one" if isinstance(spout, ParquetSpout) else "correct its first row"
            raise ExitError(
                f"{path} has no column {name!r}, {use} of table {table.name!r}, but {names}; {correct}, or define the "
                "table by one of these",
                FAILED,
            )
