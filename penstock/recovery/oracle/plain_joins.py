"""Joins recomputed from scratch over the documents of their sides, in plain Python: small and slow on purpose.

This oracle shares no code with the engine except the app's definitions. A document whose condition value can't be a
group is reported, and counts nothing here. The engine keeps the last version of it that was good, which no
recomputation can know. So a caller may give these versions. A condition value with more rows than the join's limit has
no rows at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.recovery.oracle.plain_values import Rank, Refused, at, group_of, rank
from penstock.recovery.oracle.plain_views import holds
from penstock.views import Join, JoinStep, Path, Side, key_of_group

Documents = Iterable[tuple[Any, Any]]
Accepted = Mapping[Rank, tuple[Any, Any]]
"""The held documents of a side by the rank of their keys: the key, and the last accepted version or None."""


@dataclass(frozen=True, slots=True)
class JoinEntry:
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


def joined(
    join: Join, sides: Mapping[str, Documents], accepted: Mapping[str, Accepted] | None = None
) -> RecomputedJoin:
    """Recompute a join over the documents of each side by key; a row of a view is its key and its value.

    `accepted` has by side the documents that the store holds.
    """
    out, known = RecomputedJoin(), accepted or {}
    entries = {
        side.name: side_entries(join, side.name, sides[side.name], out, known.get(side.name)) for side in join.sides
    }
    first, steps = join.steps()
    rows = entries[join.sides[first].name]
    for step in steps:
        rows = list(stepped(join, step, rows, entries[join.sides[step.side].name], out))
    out.rows = sorted(selected_rows(join, rows), key=lambda one: rank(one[0]))
    return out


def stepped(
    join: Join, step: JoinStep, rows: Sequence[JoinEntry], entries: Sequence[JoinEntry], out: RecomputedJoin
) -> Iterator[JoinEntry]:
    """Join rows of the sides before a step to the entries of its side."""
    old, new = step_paths(join, step)
    if len(join.sides) == 2 and step.side < join.steps()[0]:  # its rows are in the order of the sides
        return _combined(join, entries, new, rows, old, out)
    return _combined(join, rows, old, entries, new, out)


def step_paths(join: Join, step: JoinStep) -> tuple[list[Path], list[Path]]:
    """Return the paths of a step's condition: of the sides before it, and of its own side."""
    side = join.sides[step.side].name
    return [one for one, _ in step.pairs], [(side, *other) for _, other in step.pairs]


def selected_rows(join: Join, entries: Iterable[JoinEntry]) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield the rows of the last step that the join's condition selects, with their keys."""
    names = [side.name for side in join.row_sides]
    for entry in entries:
        row = {name: entry.row.get(name) for name in names}
        if join.filter is None or holds(join.filter.describe(), row):
            yield (*(_row_key(join, side, entry) for side in join.sides), *entry.values), row


def _row_key(join: Join, side: Side, entry: JoinEntry) -> Any:
    """Return the key of a side's document in the key of a row; null if the side is missing."""
    if side.name not in entry.keys:
        return None
    return key_of_group(entry.keys[side.name]) if join.nests_null(side) else entry.keys[side.name]


def view_documents(rows: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Return the rows of a view as documents of a side. A key of several parts is a list there, as in JSON."""
    return [(key, {"key": _as_list(key), "value": value}) for key, value in rows]


def _as_list(key: Any) -> Any:
    return [_as_list(part) for part in key] if isinstance(key, tuple) else key


def side_entries(
    join: Join, side: str, documents: Documents, out: RecomputedJoin, accepted: Accepted | None = None
) -> list[JoinEntry]:
    """Return the documents of a side that pass its filter and whose condition values can be groups.

    A document that can't be compared has its last accepted version, if one is given. That one passed the filter.
    """
    own = join.side(side)
    assert own is not None, side
    paths = [path for pair in join.on for path in pair if path[0] == side]
    entries: list[JoinEntry] = []
    for key, doc in documents:
        if own.where is not None and not holds(own.where.describe(), doc):
            continue
        try:
            for path in paths:
                group_of(at(doc, path[1:]))
            group_of(tuple(at(doc, path[1:]) for path in paths))
        except Refused as reason:
            out.held.setdefault(side, {})[rank(key)] = key, str(reason)
            _, last = (accepted or {}).get(rank(key), (key, None))
            if last is not None:
                entries.append(JoinEntry({side: key}, {side: last}))
            continue
        entries.append(JoinEntry({side: key}, {side: doc}))
    return entries


def _combined(
    join: Join,
    left: Sequence[JoinEntry],
    left_paths: Sequence[Path],
    right: Sequence[JoinEntry],
    right_paths: Sequence[Path],
    out: RecomputedJoin,
) -> Iterator[JoinEntry]:
    """Join two sides by a loop over the entries of one and the matches of each."""
    matches, others = _by_value(right, right_paths), _by_value(left, left_paths)
    above = {value for value in matches.keys() & others.keys() if _is_above(join, others[value], matches[value])}
    out.above |= {value: (len(others[value]), len(matches[value])) for value in above}
    for entry in left:
        value = condition_rank(entry, left_paths)
        if value in above:
            continue
        found = [] if value is None else matches.get(value, [])
        if join.how in ("inner", "left", "full"):
            for other in found:
                yield _combined_row(entry, other, left_paths)
        if (join.how in ("left", "full", "anti") and not found) or (join.how == "semi" and found):
            yield _with_value(entry, left_paths)
    if join.how == "full":
        for entry in right:
            value = condition_rank(entry, right_paths)
            if value is None or (value not in above and value not in others):
                yield _with_value(entry, right_paths)


def _combined_row(left: JoinEntry, right: JoinEntry, left_paths: Sequence[Path]) -> JoinEntry:
    own = _with_value(left, left_paths)
    return JoinEntry({**left.keys, **right.keys}, {**left.row, **right.row}, own.values)


def _with_value(entry: JoinEntry, paths: Sequence[Path]) -> JoinEntry:
    """Return an entry with its condition value in this step, in the form of a group; None for a null one."""
    parts = [at(entry.row, path) for path in paths]
    value = None if any(part is None for part in parts) else group_of(parts[0] if len(parts) == 1 else tuple(parts))
    return JoinEntry(entry.keys, entry.row, (*entry.values, value))


def _is_above(join: Join, left: Sequence[JoinEntry], right: Sequence[JoinEntry]) -> bool:
    return min(len(left), len(right)) >= 2 and len(left) * len(right) > join.limit


def _by_value(entries: Sequence[JoinEntry], paths: Sequence[Path]) -> dict[Rank, list[JoinEntry]]:
    out: dict[Rank, list[JoinEntry]] = {}
    for entry in entries:
        value = condition_rank(entry, paths)
        if value is not None:
            out.setdefault(value, []).append(entry)
    return out


def condition_rank(entry: JoinEntry, paths: Sequence[Path]) -> Rank | None:
    """Return the rank of an entry's condition value, or None if it matches nothing: a part of it is null."""
    parts = [at(entry.row, path) for path in paths]
    return None if any(part is None for part in parts) else rank(tuple(parts))
