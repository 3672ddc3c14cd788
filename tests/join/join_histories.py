"""Random histories of two sides of a join, judged after each transaction by a nested loop over the documents.

The nested loop shares no code with the package. Each transaction must be exact: a row that goes was there, a row that
comes was not.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np

from penstock.cache import decode_key, encode_key
from penstock.join import (
    ConditionKeys,
    Conditions,
    Entries,
    How,
    JoinChange,
    JoinedRows,
    KeptEntries,
    SideChange,
    changed_entries,
)
from penstock.mapreduce import Column, Groups, SourceKeys
from tests.harness.planting import Edit

Document = tuple[Any, Any]  # condition value, projection
Side = dict[Any, Document]
Rows = dict[tuple[Any, Any], tuple[Any, Any]]
VALUES = [None, 0, 1, 1.0, 2, True, math.nan, "a", b"a", (1, 2), (1, 3), (1.0, 2), 1 << 70, 0.5]
KEYS = [0, 1, 2, 3, "k", (1, "k"), -7, 1 << 66]
FIELDS = [0, 1, 2, 0.5, "text", None, True, 1 << 70, Decimal("1.50"), [1, None, "x"]]

TIES = [  # hashes of a few bits, so that positions of different entries are equal
    Edit("join.side_entries:first_positions", "values.hashes() & UPPER", "values.hashes() & np.uint64(1 << 63)"),
    Edit("join.side_entries:positions_of", "_HALF", "np.uint64(63)"),
]


def canonical_value(value: Any) -> Any:
    """Return a value under which equal condition values are equal in Python, and no others."""
    if isinstance(value, tuple):
        return ("tuple", *map(canonical_value, value))
    if isinstance(value, float) and math.isnan(value):
        return ("nan",)
    kind = "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__
    return (kind, value)


def equal(a: Any, b: Any) -> bool:
    return a is not None and b is not None and bool(canonical_value(a) == canonical_value(b))


def nested_loop(a: Side, b: Side, how: str, limit: int) -> Rows:
    """Return the rows of a join."""

    def is_held(value: Any) -> bool:
        n, m = (sum(equal(value, other) for other, _ in side.values()) for side in (a, b))
        return min(n, m) >= 2 and n * m > limit

    left, right = ({k: doc for k, doc in side.items() if not is_held(doc[0])} for side in (a, b))
    out: Rows = {}
    for k, (value, shown) in left.items():
        hits = [(key, other) for key, (v, other) in right.items() if equal(value, v)]
        if how in ("inner", "left", "full"):
            out.update({(k, key): (shown, other) for key, other in hits})
        if (how in ("left", "full", "anti") and not hits) or (how == "semi" and hits):
            out[k, None] = (shown, None)
    if how == "full":
        for key, (v, other) in right.items():
            if not any(equal(value, v) for value, _ in left.values()):
                out[None, key] = (None, other)
    return out


def entries_of(documents: Side) -> Entries:
    """Return documents as entries, by way of group codes as a decoder makes them."""
    groups = Groups()
    null = np.array([value is None for value, _ in documents.values()], bool)
    codes = groups.codes([0 if value is None else value for value, _ in documents.values()])
    columns = [Column.of([shown for _, shown in documents.values()])]
    keys = SourceKeys.of(list(documents))
    if keys.text is not None and not keys.text.astype(bool).any():
        keys = SourceKeys(keys.lane, None)
    return Entries.of(ConditionKeys(groups).of(codes), keys, columns, null if null.any() else None)


class ListedEntries:
    """Kept entries of documents in a dict, in blocks of any size."""

    width = 1

    def __init__(self, documents: Side, block: int) -> None:
        self._entries = entries_of(documents)
        self._block = block

    def blocks(self, wanted: Conditions) -> Iterator[tuple[Any, Entries]]:
        """Yield the entries with these condition values."""
        code = wanted.find(self._entries)
        own = np.flatnonzero(code >= 0)
        for start in range(0, own.size, self._block):
            part = own[start : start + self._block]
            yield code[part], self._entries.take(part)

    def counts(self, wanted: Conditions) -> Any:
        """Count them."""
        code = wanted.find(self._entries)
        return np.bincount(code[code >= 0], minlength=len(wanted))

    most = counts


class ListedSide:
    """One side: its documents in a dict, and the kept entries taken from there."""

    def __init__(self, rng: random.Random) -> None:
        self.documents: Side = {}
        self._rng = rng

    def kept(self, minus: Entries, plus: Entries, changed: set[Any]) -> KeptEntries:
        """Return the entries of the documents that do not change."""
        stays = {key: doc for key, doc in self.documents.items() if key not in changed}
        return ListedEntries(stays, self._rng.choice((1, 2, 1000)))

    def apply(self, minus: Entries, plus: Entries, new: dict[Any, Document | None]) -> None:
        """Apply the change of a transaction."""
        for key, doc in new.items():
            self.documents.pop(key, None)
            if doc is not None:
                self.documents[key] = doc


def shown_rows(rows: JoinedRows) -> Iterator[tuple[tuple[Any, Any], tuple[Any, Any]]]:
    """Yield each row as its pair of keys and its pair of projections."""
    sides = []
    for entries, index in ((rows.left, rows.i), (rows.right, rows.j)):
        listed = [(decode_key(key), fields[0]) for _, key, fields in entries.listed()]
        sides.append([(None, None) if i < 0 else listed[i] for i in index.tolist()])
    for (k, p), (m, q) in zip(*sides, strict=True):
        yield (k, m), (p, q)


def stepped(sides: list[Any], news: list[dict[Any, Document | None]], how: How, limit: int, rows: Rows) -> str | None:
    """Run one transaction, and apply its rows. Return the fault, if there is one."""
    changes, moved = list[SideChange](), []
    for side, new in zip(sides, news, strict=True):
        old = entries_of({key: side.documents[key] for key in new if key in side.documents})
        minus, plus = changed_entries(old, entries_of({key: doc for key, doc in new.items() if doc is not None}))
        named = {decode_key(key) for part in (minus, plus) for _, key, _ in part.listed()}
        changes.append(SideChange(minus, plus, side.kept(minus, plus, named)))
        moved.append((minus, plus))
    change = JoinChange(changes[0], changes[1], how, limit)
    goes, comes = [], []
    for block in change.rows():
        assert block.i.size == block.j.size > 0
        (comes if block.plus else goes).extend(shown_rows(block))
    for key, shown in goes:
        if rows.pop(key, "no row") != shown:
            return f"takes {key} = {shown}, which is not there"
    for key, shown in comes:
        if key in rows:
            return f"adds {key} twice"
        rows[key] = shown
    for side, (minus, plus), new in zip(sides, moved, news, strict=True):
        side.apply(minus, plus, new)
    wanted = nested_loop(sides[0].documents, sides[1].documents, how, limit)
    if rows != wanted:
        return f"has {rows}, not {wanted}"
    held = {encode_key(v) for v, _ in sides[0].documents.values() if v is not None and _held(sides, v, limit)}
    named = {one.value for one in change.limited if one.is_held}
    return None if named <= held else f"reports {named - held} as held"


def _held(sides: list[Any], value: Any, limit: int) -> bool:
    n, m = (sum(equal(value, other) for other, _ in side.documents.values()) for side in sides)
    return min(n, m) >= 2 and n * m > limit


def drawn_document(rng: random.Random, values: list[Any]) -> Document:
    return rng.choice(values), rng.choice(FIELDS)


def history(seed: int, how: How, make: Any = ListedSide) -> str | None:
    """Run a history. Return the first fault."""
    rng = random.Random(seed)
    limit, itself = rng.choice((4, 6, 1000)), rng.random() < 0.25
    values = rng.choice((VALUES, [None, 1, 2], [None, "a", (1, 2), (1, 3)]))
    sides = [make(rng), make(rng)]
    rows: Rows = {}
    for step in range(rng.randrange(1, 12)):
        news: list[dict[Any, Document | None]] = []
        for _ in sides:
            keys = rng.sample(KEYS, rng.randrange(6))
            news.append({key: None if rng.random() < 0.3 else drawn_document(rng, values) for key in keys})
        if itself:  # the second side reads another path of the same documents
            same = {key: None if doc is None else drawn_document(rng, values) for key, doc in news[0].items()}
            news = [news[0], same]
        fault = stepped(sides, news, how, limit, rows)
        if fault is not None:
            return f"seed {seed}, {how}, step {step}: {fault}"
    return None
