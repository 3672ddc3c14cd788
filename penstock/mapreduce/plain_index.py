"""The reduce node of a plain index. Nothing is folded: each contribution is a row, (group, key, rank) → value.

The key of a row is the tuple of group, document key and rank. The rank distinguishes the values of one document for one
group. The row has form B with a single contribution, whose value is its spill.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.cache import DefinitionError, Reader, Writer, decode_key, decode_keys, encode_entry, stored_key
from penstock.mapreduce.columns.column import Column
from penstock.mapreduce.columns.group_codes import Groups
from penstock.mapreduce.columns.items import Items, SourceKeys, source_hash
from penstock.mapreduce.fold.feed_rows import FeedChanges
from penstock.mapreduce.fold.row_format import RowCodec, RowState
from penstock.mapreduce.maps.emissions import Contributions, ContributionSources, Pairs
from penstock.views import ABSENT, Path


class IndexCodec:
    """The decoder of an index's rows."""

    adds_up = False

    def __init__(self) -> None:
        self._rows = RowCodec((), None)

    def decode(self, key: bytes, row: bytes, where: str) -> RowState:
        """Decode a stored row."""
        return self._rows.decode(key, row, where)

    def state_of(self, payload: bytes) -> RowState:
        """Decode a row's payload."""
        return self._rows.state_of(payload)

    def payload(self, value: Any) -> bytes:
        """Return the payload of a row with this value, without its key."""
        return self._rows.payload(RowState(1, [], [[value]]))

    def row(self, encoded: bytes, value: Any) -> tuple[bytes, bytes]:
        """Return the sealed row of a contribution."""
        key = stored_key(encoded)
        return key, self._rows.sealed(key, RowState(1, [], [[value]], None, None if key == encoded else encoded))

    def result(self, state: RowState) -> Any:
        """Return the value."""
        assert state.spills is not None, "each row has its value"
        spill = state.spills[0]
        return None if spill is None else spill[0]

    def results(self, rows: NDArray[np.int64]) -> list[Any]:
        """Refuse: no row of an index consists of lanes."""
        raise AssertionError("an index has no lanes")

    def states(self, rows: Sequence[tuple[bytes, bytes]], where: str) -> Sequence[RowState]:
        """Refuse: rows of an index cannot be added."""
        raise AssertionError("an index adds up nothing")

    def merged(self, states: Sequence[RowState]) -> RowState:
        """Return a single state. Refuse to merge several, since an index has no reducer."""
        if len(states) == 1:
            return states[0]
        raise DefinitionError("a plain index folds nothing and can't be rolled up; define a view with a reducer for it")


@dataclass(slots=True)
class IndexChange:
    """The change that a batch makes to an index. The values before and after are [value], or None without a row."""

    codec: IndexCodec
    keys: list[bytes]
    old: list[list[Any] | None]
    new: list[list[Any] | None]

    @property
    def m(self) -> int:
        """Return the number of rows that change."""
        return len(self.keys)

    def keyed(self) -> list[tuple[bytes, Any]]:
        """Return the keys of all changed rows, as stored and as values."""
        return list(zip(map(stored_key, self.keys), decode_keys(self.keys), strict=True))

    def results(self, before: bool = False) -> list[Any]:
        """Return the values of all changed rows after the batch or before it; ABSENT if there is no row."""
        return [ABSENT if found is None else found[0] for found in (self.old if before else self.new)]

    def rows(self) -> tuple[list[tuple[bytes, bytes]], list[bytes]]:
        """Return the rows to put and the keys to delete."""
        puts = [self.codec.row(key, new[0]) for key, new in zip(self.keys, self.new, strict=True) if new is not None]
        gone = [stored_key(key) for key, new in zip(self.keys, self.new, strict=True) if new is None]
        return sorted(puts), sorted(gone)

    def new_keys(self) -> list[bytes] | None:
        """Return the keys of added rows."""
        sides = zip(self.keys, self.old, self.new, strict=True)
        return [stored_key(key) for key, old, new in sides if old is None and new is not None]

    def newly_held(self) -> int:
        """Return 0: an index runs no code that could fail."""
        return 0

    def fed(self, view: int) -> FeedChanges:
        """Return the entry for the feed."""
        sides = zip(self.old, self.new, strict=True)
        odd = [[i, *(own and self.codec.payload(own[0]) for own in side)] for i, side in enumerate(sides)]
        return FeedChanges(view, self.keys, odd=odd)

    def stage(self, during: list[Callable[[Writer], None]], after: list[Callable[[], None]]) -> None:
        """Do nothing: an index writes only rows."""


class IndexReduce:
    """The reduce node of one index."""

    stamped = False
    nbytes = 0

    def __init__(self, db: str, fields: Sequence[Path | None]) -> None:
        self.db = db
        self.codec = IndexCodec()
        self.fields = tuple(fields)

    def forget(self) -> None:
        """Do nothing: memory holds no state."""

    def folded(self, reader: Reader, groups: Groups, plus: Contributions, minus: Contributions) -> IndexChange:
        """Return the change that these contributions make."""
        old, new = self._entries(groups, minus), self._entries(groups, plus)
        keys = [key for key in sorted({**old, **new}) if not _same(old.get(key), new.get(key))]
        return IndexChange(self.codec, keys, [old.get(key) for key in keys], [new.get(key) for key in keys])

    def of_sources(self, reader: Reader, groups: Groups, named: Items) -> Contributions:
        """Return the contributions of these documents to these groups. `node` is the group's code, and `rank` is 0."""
        left = [(i, groups.value(code)) for i, code in enumerate(named.node.tolist())]
        whose, found, rank = named.sources(), list[tuple[int, int, Any]](), 0
        while left:
            keys = [_entry(group, whose[i][0], rank) for i, group in left]
            rows = reader.get_many(self.db, list(map(stored_key, keys)))
            present = [(own, key, row) for own, key, row in zip(left, keys, rows, strict=True) if row is not None]
            for (i, _), key, row in present:
                state = self.codec.decode(stored_key(key), row, f"index {self.db!r}")
                found.append((i, rank, self.codec.result(state)))
            left, rank = [own for own, _, _ in present], rank + 1
        at = np.array([i for i, _, _ in found], np.int64)
        ranks = np.array([r for _, r, _ in found], np.int64)
        inputs = {f: Column.of([value for _, _, value in found]) for f in self.fields}
        sources = ContributionSources(SourceKeys(named.lane, named.text), at, ranks)
        return Contributions(named.node[at].astype(np.int32), inputs, sources)

    def _entries(self, groups: Groups, side: Contributions) -> dict[bytes, list[Any]]:
        sources = side.sources
        assert sources is not None, "a view that keeps contributions is told whose they are"
        text = None if sources.keys.text is None else sources.keys.text[sources.index]
        lane = sources.keys.lane[sources.index]
        whose = Items(lane, source_hash(lane.view(np.uint64), None), lane, text, sources.rank, ()).sources()
        column = side.inputs[None] if None in side.inputs else Column.nulls(side.n)
        known: dict[int, Any] = {}
        out: dict[bytes, list[Any]] = {}
        for code, (encoded, rank), value in zip(side.code.tolist(), whose, column.values(), strict=True):
            group = known.get(code)
            if group is None:
                group = known[code] = groups.value(code)
            out[_entry(group, encoded, rank)] = [value]
        return out


def entries_of(key: bytes, pairs: Pairs) -> list[bytes]:
    """Return the encoded keys of a document's rows in an index, in order of these contributions."""
    ranks: Counter[bytes] = Counter()
    out: list[bytes] = []
    for group, _ in pairs:
        out.append(_entry(decode_key(group), key, ranks[group]))
        ranks[group] += 1
    return out


def _entry(group: Any, key: bytes, rank: int) -> bytes:
    whose = decode_key(key)
    return encode_entry((group, whose, rank))


def _same(old: list[Any] | None, new: list[Any] | None) -> bool:
    """Return True if a row certainly stays the same. The check compares simple types only."""
    if old is None or new is None:
        return old is new
    kind = type(old[0])
    return kind is type(new[0]) and kind in (int, str, bool, type(None)) and bool(old[0] == new[0])
