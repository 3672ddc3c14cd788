"""Check, when a view is defined, that the fields that its reducers read can exist.

A field view reads paths of documents. A chained view reads paths of rows, which have a key and a value. A reducer that
orders by ts needs documents with a ts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from penstock.cache import DefinitionError, key_text
from penstock.views.document_paths import is_part
from penstock.views.filtered_fields import filtered_of, plain_fields
from penstock.views.name_form import nearest
from penstock.views.reducer_protocols import TS, Need, Path, Reducer, is_tree_cell
from penstock.views.view_maps import FieldMap, ReduceFunction

Reducers = Sequence[Reducer | ReduceFunction]


def fields_read(reducers: Reducers) -> Iterator[Path | None]:
    """Yield the fields of a value that reducers read, `TS` among them. None stands for the value itself."""
    for reducer in reducers:
        if isinstance(reducer, ReduceFunction):
            yield None
            continue
        for cell in reducer.cells:
            yield from plain_fields(cell.field)
            if is_tree_cell(cell):
                yield from cell.beside


def check_conditions(view: str, value: Path | None, reducers: Reducers) -> None:
    """Raise DefinitionError if a condition of a reducer can't read a field, because the value itself is a number.

    `value` is the path of a field view's value. If a reducer reads that value itself, it has no fields to compare.
    """
    cells = [cell for reducer in reducers if not isinstance(reducer, ReduceFunction) for cell in reducer.cells]
    conditions = [own for cell in cells if (own := filtered_of(cell.field)) is not None and own.where is not None]
    for cell in cells:
        itself = None in plain_fields(cell.field)
        numbers = cell.need is Need.NUMBER and filtered_of(cell.field) in conditions
        if itself and ((conditions and value is not None) or numbers):
            raise DefinitionError(
                f"view {view!r} has a reducer with where=, which reads fields of the value, and a reducer of the value "
                "itself; name the field in each reducer, such as ps.sum('amount', where=ps.field('paid')), and "
                + ("leave value= out" if value is not None else "yield (group, a map of these fields)")
            )


def check_values(view: str, fields: FieldMap, reducers: Reducers) -> None:
    """Raise DefinitionError if a reducer of a field view has no value to read. count() reads none."""
    if any(field != TS and fields.path_of(field) is None for field in fields_read(reducers)):
        raise DefinitionError(
            f"view {view!r} has a reducer that is not told what to read; name the field in it, such as "
            "ps.sum('amount'), or give the view a value='amount'"
        )


def check_stamps(view: str, reducers: Reducers, source: str, stamped: bool) -> None:
    """Raise DefinitionError if a reducer orders by ts, but the documents of its table or parent view have none."""
    if not stamped and TS in fields_read(reducers):
        raise DefinitionError(
            f"view {view!r} has a reducer that goes by ts, and what is in {source!r} has none; name the field to go "
            "by, such as ps.last('amount', by='at'), or define it on a table with ts="
        )


def paths_read(fields: FieldMap, reducers: Reducers) -> list[Path]:
    """Return the paths that a field view reads: of its groups, its condition and its values."""
    read: list[Path] = [*fields.key.paths]
    if fields.where is not None:
        read += fields.where.paths()
    values = [fields.value, *(fields.path_of(field) for field in fields_read(reducers))]
    return read + [path for path in values if path is not None]


def check_paths(
    view: str,
    source: str,
    source_fields: tuple[str, ...] | None,
    read: Iterable[Path],
    parts: int | None = None,
) -> None:
    """Raise DefinitionError if a chained view reads a path that rows don't have. Rows have a key and a value.

    `parts` is the number of parts of the parent view's keys, if it is known.
    """
    for path in read:
        root, *names = path
        dotted = ".".join(path)
        if root not in ("key", "value"):
            raise DefinitionError(
                f"view {view!r} reads {dotted!r} of the view {source!r}, whose rows have a key and a "
                f"value; write 'key', 'value', or 'value.{dotted}'"
            )
        if root == "key" and not all(map(is_part, names)):
            raise DefinitionError(
                f"view {view!r} reads {dotted!r} of the view {source!r}; a key has no fields, so write "
                "'key', or 'key.0' for the first part of a key that is a tuple"
            )
        if root == "key" and names and parts is not None and int(names[0]) >= parts:
            raise DefinitionError(
                f"view {view!r} reads {dotted!r} of the view {source!r}; its keys have {parts} parts, and the first "
                "is 'key.0'"
            )
        if root == "value" and names and source_fields and names[0] not in source_fields:
            near = nearest(names[0], source_fields) or source_fields[0]
            raise DefinitionError(
                f"view {view!r} reads {dotted!r} of the view {source!r}, whose fields are "
                f"{', '.join(source_fields)}; did you mean 'value.{near}'?"
            )


def check_tombstones(table: str, tombstones: object, ts: str | None) -> None:
    """Raise DefinitionError unless `tombstones` is a number, 0 or more, of a table with a ts."""
    if tombstones is None:
        return
    if not isinstance(tombstones, int | float) or isinstance(tombstones, bool) or not 0 <= tombstones < math.inf:
        raise DefinitionError(
            f"tombstones= of table {table!r} is {key_text(tombstones)}; write how far a deletion's "
            "ts may lie behind the "
            "table's greatest, a number of 0 or more, or leave it out to keep all"
        )
    if ts is None:
        raise DefinitionError(
            f"table {table!r} has tombstones= but no ts=, and so keeps no deletions; give it a ts=, or leave "
            "tombstones= out"
        )
