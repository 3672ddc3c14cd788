"""Define joins, whose rows combine documents of several sides with equal condition values.

Invariants:

- the definition is checked completely when it is made. Every refusal names the side at fault;
- `sides` have the order of the call, which is the order of a row's key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from penstock.cache import DefinitionError
from penstock.views.definitions import Source, Table, View
from penstock.views.field_expressions import Where
from penstock.views.name_form import nearest
from penstock.views.reducer_inputs import fields_read, paths_read
from penstock.views.reducer_protocols import Path, is_accumulator
from penstock.views.view_maps import FieldMap, Key, ReduceFunction

How = Literal["inner", "left", "full", "semi", "anti"]

LIMIT = 10_000_000
_FIRST_ONLY = ("semi", "anti")
_ROOTS = ("key", "value")


@dataclass(frozen=True, slots=True)
class Side:
    """A named input of a join, with its filter."""

    name: str
    source: Source
    where: Where | None = None

    def describe(self) -> dict[str, object]:
        """Return the side as plain data."""
        where = None if self.where is None else self.where.describe()
        return {"side": self.name, "source": self.source.name, "where": where}


@dataclass(frozen=True, slots=True)
class JoinStep:
    """A side that is joined to the sides before it, and the pairs of paths that must be equal.

    The first path of a pair begins with the name of its side. The second is a path of the new side. Pairs that compare
    the whole key of a side have the order of its parts.
    """

    side: int
    pairs: tuple[tuple[Path, Path], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Join(Source):
    """Rows that combine documents of several sides, made by `App.join`.

    >>> import penstock as ps
    >>> app = ps.App("shop")
    >>> orders, customers = app.table("orders", key="id"), app.table("customers", key="id")
    >>> sold = app.join("sold", order=orders, customer=customers, on={"order.customer_id": "customer.id"})
    >>> [side.name for side in sold.sides], sold.how
    (['order', 'customer'], 'inner')
    """

    sides: tuple[Side, ...]
    on: tuple[tuple[Path, Path], ...]
    how: How = "inner"
    filter: Where | None = None
    limit: int = LIMIT

    @property
    def tables(self) -> tuple[Table, ...]:
        """Return the tables below its sides, each once."""
        return tuple(dict.fromkeys(table for side in self.sides for table in side.source.tables))

    @property
    def rows(self) -> str:
        """Return a name for the join as the source of a view."""
        return f"join {self.name!r}"

    def shown_key(self, key: Any) -> Any:
        """Return the keys of a row's documents, without the condition values that also name the row."""
        own = zip(self.sides, key, strict=False)
        return tuple(None if part is None else side.source.shown_key(part) for side, part in own)

    def owner_of(self, key: Any) -> Any:
        """Return the condition value whose partition has a row; for a null one, the key of its document."""
        if key[-1] is not None:
            return key[-1]
        side, own = next((side, own) for side, own in zip(self.sides, key, strict=False) if own is not None)
        return side.source.owner_of(own) if isinstance(side.source, Join) else own

    @property
    def row_sides(self) -> tuple[Side, ...]:
        """Return the sides that a joined row has."""
        return self.sides[:1] if self.how in _FIRST_ONLY else self.sides

    def side(self, name: str) -> Side | None:
        """Return the side of this name, or None."""
        return next((side for side in self.sides if side.name == name), None)

    def steps(self) -> tuple[int, tuple[JoinStep, ...]]:
        """Return the number of the side that the chain begins with, and the steps that connect the others."""
        names = [side.name for side in self.sides]
        first = names.index(self.on[0][0][0])
        known, steps = [names[first]], list[JoinStep]()
        while (new := self._next(known)) is not None:
            pairs = [_oriented(pair, new) for pair in self.on if {p[0] for p in pair} <= {*known, new}]
            own = tuple((one, other[1:]) for one, other in pairs if other[0] == new and one[0] != new)
            sides = [self.sides[names.index(side)] for side in ((new,) if steps else (new, known[0]))]
            steps.append(JoinStep(names.index(new), _in_key_order(own, sides)))
            known.append(new)
        return first, tuple(steps)

    def _next(self, known: list[str]) -> str | None:
        """Return the side that the first entry with one connected side connects."""
        for one, other in self.on:
            new = [path[0] for path in (one, other) if path[0] not in known]
            if len(new) == 1:
                return new[0]
        return None

    def check_path(self, reader: str, path: Path, whole: bool = True) -> None:
        """Raise DefinitionError unless rows may have this path. `whole` allows a side without a field."""
        side = next((side for side in self.row_sides if side.name == path[0]), None)
        dotted = ".".join(path)
        if side is None and self.side(path[0]) is not None:
            raise DefinitionError(
                f"{reader} reads {dotted!r}, and rows of the {self.how} join {self.name!r} have no {path[0]!r}; "
                f"read {self.sides[0].name!r} alone, or use how='inner'"
            )
        if side is None:
            names = [side.name for side in self.row_sides]
            raise DefinitionError(
                f"{reader} reads {dotted!r} of the join {self.name!r}, whose sides are "
                f"{', '.join(map(repr, names))}; write the side first, such as {near_path(path, names)!r}"
            )
        if len(path) == 1:
            if not whole:
                raise DefinitionError(
                    f"{reader} groups by the whole of side {path[0]!r} of the join {self.name!r}; name a field of it, "
                    f"such as '{path[0]}.id'"
                )
            return
        check_side_path(reader, side, path[1:])

    def check_view(self, view: str, fields: FieldMap, read: Iterable[Path]) -> None:
        """Raise DefinitionError if a view reads a path that rows don't have."""
        for path in fields.key.paths:
            self.check_path(f"view {view!r}", path, whole=False)
        for path in read:
            self.check_path(f"view {view!r}", path)

    def describe(self) -> dict[str, object]:
        """Return the join as plain data."""
        return {
            "kind": "join",
            "name": self.name,
            "sides": [side.describe() for side in self.sides],
            "on": [[list(one), list(other)] for one, other in self.on],
            "how": self.how,
            "where": None if self.filter is None else self.filter.describe(),
            "limit": self.limit,
        }


def rows_refused(join: Join) -> DefinitionError:
    """Return the error for a reader of the rows of a join, which stores none."""
    return DefinitionError(
        f"the join {join.name!r} keeps no rows; define a view on it that does, such as {join.name}.view("
        f"'{join.name}_rows', key='{'.'.join(join.on[0][0])}', reduce=None), and read that"
    )


def side_paths(join: Join, side: str) -> list[str]:
    """Return the paths of a side in the condition, each with the name of the side."""
    return [".".join(path) for pair in join.on for path in pair if path[0] == side]


def near_path(path: Path, names: Sequence[str]) -> str:
    """Return a path that begins with the most similar of these names of sides."""
    own = nearest(path[0], names) or names[0]
    return ".".join((own, *(path[1:] or path)))


def check_side_path(reader: str, side: Side, path: Path) -> None:
    """Raise DefinitionError unless the source of a side may have this path."""
    source, dotted = side.source, ".".join((side.name, *path))
    if isinstance(source, Join):
        source.check_path(f"{reader}, in side {side.name!r},", path)
    if not isinstance(source, View):
        return
    root, *names = path
    if root not in _ROOTS:
        raise DefinitionError(
            f"{reader} reads {dotted!r}, and side {side.name!r} is the view {source.name!r}, whose rows have a key and "
            f"a value; write '{side.name}.key', '{side.name}.value', or '{side.name}.value.{'.'.join(path)}'"
        )
    if root == "key" and names:
        raise DefinitionError(
            f"{reader} reads {dotted!r}, and a key of the view {source.name!r} has no fields; write '{side.name}.key'"
        )
    if root == "value" and names and source.fields and names[0] not in source.fields:
        near = nearest(names[0], source.fields) or source.fields[0]
        raise DefinitionError(
            f"{reader} reads {dotted!r}, and the view {source.name!r} of side {side.name!r} has the fields "
            f"{', '.join(source.fields)}; did you mean '{side.name}.value.{near}'?"
        )


def _oriented(pair: tuple[Path, Path], new: str) -> tuple[Path, Path]:
    """Return a pair with the path of this side last."""
    one, other = pair
    return (other, one) if one[0] == new else (one, other)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SideView(View):
    """A side of a join as a view without a reducer. It is no definition of the app, and readers don't see it."""

    join: str
    side: str
    projection: tuple[Path, ...]
    unmatched: bool  # a document without a match has a row
    by_key: bool  # its condition value is the whole key of its source: it is looked up there, and has no index

    def describe(self) -> dict[str, object]:
        """Return the side as plain data."""
        out: dict[str, object] = {
            "kind": "side",
            "name": self.name,
            "join": self.join,
            "source": self.source.name,
            "map": self.map.describe(),
            "projection": [list(path) for path in self.projection],
        }
        return out | {"by_key": True} if self.by_key else out


def side_views(join: Join) -> tuple[SideView, ...]:
    """Return the side of each step as a view: its group is the condition value, its value the projection.

    A join of more than two sides has none yet. A view that reads whole rows, as a function does, makes the projection
    whole.
    """
    if len(join.sides) != 2:
        return ()
    first, [step] = join.steps()
    keys = {first: [one[1:] for one, _ in step.pairs], step.side: [other for _, other in step.pairs]}
    return tuple(
        SideView(
            join.app,
            f"{join.name}:{side.name}",
            join.order,
            side.source,
            FieldMap(_condition(keys[i]), None, side.where),
            (),
            None,
            join=join.name,
            side=side.name,
            projection=_projected(join, side.name),
            unmatched=join.how == "full" or (i == 0 and join.how in ("left", "anti")),
            by_key=join.how != "full" and _key_of(side) == _condition(keys[i]),
        )
        for i, side in enumerate(join.sides)
    )


def stored_side(side: SideView, definition: Mapping[str, Any]) -> SideView:
    """Return a side as its stored definition has it: with other fields than views read, or an index for a key side."""
    projection = tuple(tuple(path) for path in definition["projection"])
    return replace(side, projection=projection, by_key=definition.get("by_key", False))


def _condition(paths: Sequence[Path]) -> Key:
    return Key(tuple(paths), len(paths) == 1)


def _key_of(side: Side) -> Key | None:
    """Return the whole key of the source of a side, if its documents can be looked up by it."""
    if isinstance(side.source, View):
        return Key((("key",),), True)
    return side.source.key if isinstance(side.source, Table) else None


def _in_key_order(pairs: Sequence[tuple[Path, Path]], sides: Sequence[Side]) -> tuple[tuple[Path, Path], ...]:
    """Return pairs of paths in the order of a whole key, if one of these sides has all of it, else as they are.

    A path in a pair has its side first; the second one of a step has none.
    """
    for side in sides:
        key = _key_of(side)
        own = {one[1:] if one[0] == side.name else other: (one, other) for one, other in pairs}
        if key is not None and len(own) == len(pairs) and set(own) == set(key.paths):
            return tuple(own[path] for path in key.paths)
    return tuple(pairs)


def _projected(join: Join, side: str) -> tuple[Path, ...]:
    """Return the paths of a side that the join and the views on it read, sorted; the empty path is the document.

    They are sorted so that the order of views does not change the projection.
    """
    read = [] if join.filter is None else [*join.filter.paths()]
    if side not in {own.name for own in join.row_sides}:
        return ()
    for view in join.app.views():
        if view.source is join:
            read += _values_read(view, view.map) if isinstance(view.map, FieldMap) else [(side,)]
    for other in join.app.joins():
        assert isinstance(other, Join), "it is one of the joins"
        for reader in other.sides:
            if reader.source is join:
                read += _side_reads(other, reader)
    own = {path[1:] for path in read if path[0] == side}
    return _whole_document(join, side) if () in own else tuple(sorted(own))


def _side_reads(join: Join, side: Side) -> Iterator[Path]:
    """Yield the paths of a side that a join reads: for its condition, its filter, and its own readers."""
    yield from (path[1:] for pair in join.on for path in pair if path[0] == side.name)
    yield from () if side.where is None else side.where.paths()
    yield from _projected(join, side.name)


def _whole_document(join: Join, side: str) -> tuple[Path, ...]:
    """Return the paths of a whole document of a side. A row of a join has its sides."""
    own = join.side(side)
    assert own is not None, side
    source = own.source
    return tuple(sorted((one.name,) for one in source.row_sides)) if isinstance(source, Join) else ((),)


def _values_read(view: View, fields: FieldMap) -> list[Path]:
    """Return the paths whose values a view uses; `value=` is a value only if a reducer or the view keeps it."""
    read = paths_read(fields, view.reducers)
    cells = [None if isinstance(reducer, ReduceFunction) else reducer.cells for reducer in view.reducers]
    sums = all(own is not None and all(map(is_accumulator, own)) for own in cells)
    if fields.value is not None and sums and not view.sources and not view.index:
        whole = None in fields_read(view.reducers)
        return read if whole else [path for path in read if path != fields.value]
    return read
