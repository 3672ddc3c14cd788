"""The sides of a join as views: the group is the condition value, and the value is the projection.

A projection has the fields that the join, its readers and later steps read. It is computed from the definitions of the
app, so a view or a join that is defined later widens it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.views.definitions import View
from penstock.views.join_definitions import Join, JoinStep, Side, key_of
from penstock.views.reducer_inputs import fields_read, paths_read
from penstock.views.reducer_protocols import Path, is_accumulator
from penstock.views.view_maps import FieldMap, Key, ReduceFunction


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SideView(View):
    """A side of a join as a view without a reducer. It is no definition of the app, and readers don't see it."""

    join: str
    side: str
    projection: tuple[Path, ...]
    covers: tuple[str, ...] = ()  # the sides of a prefix, whose rows are the documents of this side
    places: tuple[int, ...] = ()  # by side of the join: its place among the sides of the prefix and the new one
    checked: Key | None = None  # the paths of all conditions of a side: each value must be a possible group
    unmatched: bool  # a document without a match has a row
    nests_null: bool = False  # the null group is (null,) in the key of a row, where null is a missing side
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
        if self.by_key:
            out["by_key"] = True
        if self.checked is not None:
            out["checked"] = [list(path) for path in self.checked.paths]
        return out


def side_views(join: Join) -> tuple[SideView, ...]:
    """Return the sides of a join as views: the group is the condition value, the value is the projection.

    A join of more than two sides has two: its prefix and the side that is connected last. A view that reads whole rows,
    as a function does, makes the projection whole.
    """
    first, steps = join.steps()
    step = steps[-1]
    if join.prefix is not None:
        return _prefix_view(join, join.prefix, step), _side_view(join, step.side, [other for _, other in step.pairs])
    keys = {first: [one[1:] for one, _ in step.pairs], step.side: [other for _, other in step.pairs]}
    return tuple(_side_view(join, i, keys[i]) for i in range(len(join.sides)))


def _side_view(join: Join, i: int, paths: Sequence[Path]) -> SideView:
    side = join.sides[i]
    whole = join
    while whole.next is not None:
        whole = whole.next
    every = tuple(dict.fromkeys(path[1:] for pair in whole.on for path in pair if path[0] == side.name))
    return SideView(
        join.app,
        f"{join.name}:{side.name}",
        join.order,
        side.source,
        FieldMap(_condition(paths), None, side.where),
        (),
        None,
        join=join.name,
        side=side.name,
        projection=_projected(join, side.name),
        unmatched=join.how == "full" or (i == 0 and join.how in ("left", "anti")),
        nests_null=join.nests_null(side),
        by_key=join.how != "full" and key_of(side) == _condition(paths),
        checked=Key(every, False) if set(every) > set(paths) else None,
    )


def _prefix_view(join: Join, prefix: Join, step: JoinStep) -> SideView:
    names = tuple(side.name for side in prefix.sides)
    chain = [*names, join.sides[step.side].name]
    return SideView(
        join.app,
        f"{join.name}:({'+'.join(names)})",
        join.order,
        prefix,
        FieldMap(_condition([one for one, _ in step.pairs]), None, None),
        (),
        None,
        join=join.name,
        side=f"({'+'.join(names)})",
        projection=tuple(sorted({path for path in _reads(join) if path[0] in names})),
        unmatched=False,
        by_key=False,
        covers=names,
        places=tuple(chain.index(side.name) for side in join.sides),
    )


def stored_side(side: SideView, definition: Mapping[str, Any]) -> SideView:
    """Return a side with the projection of its stored definition, which may have other fields than views read."""
    return replace(side, projection=tuple(tuple(path) for path in definition["projection"]))


def _condition(paths: Sequence[Path]) -> Key:
    return Key(tuple(paths), len(paths) == 1)


def _projected(join: Join, side: str) -> tuple[Path, ...]:
    """Return the paths of a side that the join and its readers read; the empty path is the document."""
    if side not in {own.name for own in join.row_sides}:
        return ()
    own = {path[1:] for path in _reads(join) if path[0] == side}
    return _whole_document(join, side) if () in own else tuple(sorted(own))


def _reads(join: Join) -> list[Path]:
    """Return the paths of rows that a join reads for its condition, and those that its readers read."""
    read = [] if join.filter is None else [*join.filter.paths()]
    for view in join.app.views():
        if view.source is join and isinstance(view.map, FieldMap):
            read += _values_read(view, view.map)
        elif view.source is join:
            read += [(side.name,) for side in join.row_sides]
    for other in join.app.joins():
        assert isinstance(other, Join), "it is one of the joins"
        for reader in other.sides:
            if reader.source is join:
                read += _side_reads(other, reader)
    if join.next is not None:
        read += [one for one, _ in join.next.steps()[1][-1].pairs] + _reads(join.next)
    return read


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
