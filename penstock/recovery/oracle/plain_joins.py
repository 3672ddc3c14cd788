"""Joins recomputed from scratch over the documents of their sides, in plain Python: small and slow on purpose.

This oracle shares no code with the engine except the app's definitions. A document whose condition value can't be a
group is reported, and counts nothing here. The engine keeps the last version of it that was good, which no
recomputation can know. A condition value with more rows than the join's limit has no rows at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.recovery.oracle.plain_values import Rank, Refused, at, group_of, rank
from penstock.recovery.oracle.plain_views import holds
from penstock.views import Join, Path

Documents = Iterable[tuple[Any, Any]]


@dataclass(frozen=True, slots=True)
class _Entry:
    """A document or a partial row: its keys and its documents by side, and its condition values by step."""

    keys: Mapping[str, Any]
    row: Mapping[str, Any]
    values: tuple[Any, ...] = ()


@dataclass(slots=True)
class RecomputedJoin:
    """A recomputed join: its rows, the documents that it can't take, and the condition values above the limit.

    The key of a row has the keys of its documents, and then its condition values. `held` has by side the rank of a key,
    with the key and the reason. `above` has the numbers of matches by value.
    """

    rows: list[tuple[Any, dict[str, Any]]] = field(default_factory=list)
    held: dict[str, dict[Rank, tuple[Any, str]]] = field(default_factory=dict)
    above: dict[Rank, tuple[int, int]] = field(default_factory=dict)


def joined(join: Join, sides: Mapping[str, Documents]) -> RecomputedJoin:
    """Recompute a join over the documents of each side by key; a row of a view is its key and its value."""
    out = RecomputedJoin()
    entries = {side.name: _entries(join, side.name, sides[side.name], out) for side in join.sides}
    first, steps = join.steps()
    rows = entries[join.sides[first].name]
    for step in steps:
        side = join.sides[step.side].name
        old = [one for one, _ in step.pairs]
        new = [(side, *other) for _, other in step.pairs]
        if step.side < first:  # rows of a join of two sides are in the order of the sides
            rows = _combined(join, entries[side], new, rows, old, out)
        else:
            rows = _combined(join, rows, old, entries[side], new, out)
    names = [side.name for side in join.row_sides]
    for entry in rows:
        row = {name: entry.row.get(name) for name in names}
        if join.filter is None or holds(join.filter.describe(), row):
            out.rows.append(((*(entry.keys.get(side.name) for side in join.sides), *entry.values), row))
    out.rows.sort(key=lambda one: rank(one[0]))
    return out


def _entries(join: Join, side: str, documents: Documents, out: RecomputedJoin) -> list[_Entry]:
    """Return the documents of a side that pass its filter and whose condition values can be groups."""
    own = join.side(side)
    assert own is not None, side
    paths = [path for pair in join.on for path in pair if path[0] == side]
    entries: list[_Entry] = []
    for key, doc in documents:
        if own.where is not None and not holds(own.where.describe(), doc):
            continue
        try:
            for path in paths:
                group_of(at(doc, path[1:]))
            group_of(tuple(at(doc, path[1:]) for path in paths))
        except Refused as reason:
            out.held.setdefault(side, {})[rank(key)] = key, str(reason)
            continue
        entries.append(_Entry({side: key}, {side: doc}))
    return entries


def _combined(
    join: Join,
    left: Sequence[_Entry],
    left_paths: Sequence[Path],
    right: Sequence[_Entry],
    right_paths: Sequence[Path],
    out: RecomputedJoin,
) -> list[_Entry]:
    """Join two sides by a loop over the entries of one and the matches of each."""
    matches, others = _by_value(right, right_paths), _by_value(left, left_paths)
    above = {value for value in matches.keys() & others.keys() if _is_above(join, others[value], matches[value])}
    out.above |= {value: (len(others[value]), len(matches[value])) for value in above}
    rows: list[_Entry] = []
    for entry in left:
        value = _value(entry, left_paths)
        if value in above:
            continue
        found = [] if value is None else matches.get(value, [])
        if join.how in ("inner", "left", "full"):
            rows += [_combined_row(entry, other, left_paths) for other in found]
        if (join.how in ("left", "full", "anti") and not found) or (join.how == "semi" and found):
            rows.append(_with_value(entry, left_paths))
    if join.how == "full":
        for entry in right:
            value = _value(entry, right_paths)
            if value is None or (value not in above and value not in others):
                rows.append(_with_value(entry, right_paths))
    return rows


def _combined_row(left: _Entry, right: _Entry, left_paths: Sequence[Path]) -> _Entry:
    own = _with_value(left, left_paths)
    return _Entry({**left.keys, **right.keys}, {**left.row, **right.row}, own.values)


def _with_value(entry: _Entry, paths: Sequence[Path]) -> _Entry:
    """Return an entry with its condition value in this step, in the form of a group; None for a null one."""
    parts = [at(entry.row, path) for path in paths]
    value = None if any(part is None for part in parts) else group_of(parts[0] if len(parts) == 1 else tuple(parts))
    return _Entry(entry.keys, entry.row, (*entry.values, value))


def _is_above(join: Join, left: Sequence[_Entry], right: Sequence[_Entry]) -> bool:
    return min(len(left), len(right)) >= 2 and len(left) * len(right) > join.limit


def _by_value(entries: Sequence[_Entry], paths: Sequence[Path]) -> dict[Rank, list[_Entry]]:
    out: dict[Rank, list[_Entry]] = {}
    for entry in entries:
        value = _value(entry, paths)
        if value is not None:
            out.setdefault(value, []).append(entry)
    return out


def _value(entry: _Entry, paths: Sequence[Path]) -> Rank | None:
    """Return the rank of an entry's condition value, or None if it matches nothing: a part of it is null."""
    parts = [at(entry.row, path) for path in paths]
    return None if any(part is None for part in parts) else rank(tuple(parts))
