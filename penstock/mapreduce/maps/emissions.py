"""Emissions: the contributions of documents, as columns, and as the rows in which they are remembered.

Each contribution has a document, a group, and the values that the cells of the view read. The emissions of a function
view are stored with the documents, a row for each segment of the table's log:

    [counts, groups, codes, values]   counts: contributions a document (u32s), or nil where each has one
                                      groups: encodings of the groups that occur, codes: u32s into it
                                      values: int64s where all are, else a list, or nil where all are null

The contributions of one document are sorted by (group, value). The order of yielding has no meaning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.cache import decode_keys, encode_key, order_key, pack, seal, seal_many, unpack, unseal_many
from penstock.mapreduce.columns.column import Column, LaneKind
from penstock.mapreduce.columns.group_codes import Codes, Groups, local_codes
from penstock.mapreduce.columns.items import SourceKeys, listed_sources
from penstock.views import Path, read_fields

_encode = msgspec.msgpack.Encoder().encode  # rows of ints are bytes and lists alone
_ONE, _FIRST = (np.array([n], "<u4").tobytes() for n in (1, 0))
Field = Path | None
Pairs = list[tuple[bytes, Any]]  # (encoded group, value)
Yielded = list[tuple[int, Any]]  # (group code, value)


@dataclass(slots=True)
class ContributionSources:
    """The source of each contribution: the index of its key, and its rank among the values of that document."""

    keys: SourceKeys
    index: NDArray[np.int64]
    rank: NDArray[np.int64] | None = None  # None: all 0

    def take(self, index: NDArray[Any]) -> ContributionSources:
        """Return the sources at these indexes, or at the places that a mask marks."""
        return ContributionSources(self.keys, self.index[index], None if self.rank is None else self.rank[index])

    def listed(self) -> list[tuple[bytes, int]]:
        """Return the encoded key and the rank of each source."""
        text = None if self.keys.text is None else self.keys.text[self.index]
        return listed_sources(self.keys.lane[self.index], text, self.rank)

    @staticmethod
    def join(parts: Sequence[ContributionSources]) -> ContributionSources:
        """Concatenate sources."""
        rank = None
        if any(p.rank is not None for p in parts):
            rank = np.concatenate([np.zeros(p.index.size, np.int64) if p.rank is None else p.rank for p in parts])
        if all(p.keys is parts[0].keys for p in parts):
            return ContributionSources(parts[0].keys, np.concatenate([p.index for p in parts]), rank)
        starts = np.cumsum([0, *(p.keys.lane.size for p in parts[:-1])])
        index = np.concatenate([p.index + start for p, start in zip(parts, starts.tolist(), strict=True)])
        return ContributionSources(SourceKeys.join([p.keys for p in parts]), index, rank)


@dataclass(slots=True)
class Contributions:
    """One side of a delta: contributions by group code, with a column for each field that cells read.

    `sources` are there for views that keep contributions.
    """

    code: Codes
    inputs: dict[Field, Column]
    sources: ContributionSources | None = None

    @property
    def n(self) -> int:
        """Count the contributions."""
        return int(self.code.size)

    def take(self, index: NDArray[Any]) -> Contributions:
        """Return the contributions at these indexes, or at the places that a mask marks."""
        if index.dtype == bool:
            index = index.nonzero()[0]
        inputs = {f: c.take(index) for f, c in self.inputs.items()}
        return Contributions(self.code[index], inputs, None if self.sources is None else self.sources.take(index))

    @staticmethod
    def join(parts: Sequence[Contributions]) -> Contributions:
        """Concatenate contributions."""
        parts = [part for part in parts if part.n] or parts[:1]
        if len(parts) == 1:
            return parts[0]
        fields = parts[0].inputs
        sources = [p.sources for p in parts if p.sources is not None]
        return Contributions(
            np.concatenate([p.code for p in parts]),
            {f: Column.join([p.inputs[f] for p in parts]) for f in fields},
            ContributionSources.join(sources) if sources else None,
        )

    def of(self, keys: SourceKeys, who: NDArray[np.int64], counts: NDArray[np.int64] | None = None) -> Contributions:
        """Add sources: `who` numbers the keys of the documents; `counts` are the contributions of each (None: one)."""
        index, rank = who, None
        if counts is not None:
            index = np.repeat(who, counts)
            rank = _ranks(np.repeat(np.arange(who.size), counts), self.code)
        return Contributions(self.code, self.inputs, ContributionSources(keys, index, rank))


@dataclass(slots=True)
class Emissions:
    """The emissions of a list of documents: `counts` contributions each (None: one each), in order."""

    counts: NDArray[np.int64] | None
    code: Codes
    values: Column | None  # None: all null

    @property
    def documents(self) -> int:
        """Count the documents."""
        return int(self.code.size if self.counts is None else self.counts.size)

    @classmethod
    def none(cls, documents: int) -> Emissions:
        """Make the emissions of documents that yielded nothing."""
        return cls(np.zeros(documents, np.int64), np.zeros(0, np.int32), None)

    def starts(self) -> NDArray[np.int64]:
        """Return the index of the first contribution of each document, and the end."""
        if self.counts is None:
            return np.arange(self.code.size + 1)
        return np.concatenate((np.zeros(1, np.int64), np.cumsum(self.counts)))

    def flat_index(self, documents: NDArray[Any]) -> NDArray[np.int64]:
        """Return the indexes of the contributions of these documents, in their order."""
        if self.counts is None:
            return documents.astype(np.int64)
        counts = self.counts[documents]
        ends = np.cumsum(counts)
        shift = np.repeat(self.starts()[documents] - (ends - counts), counts)
        flat: NDArray[np.int64] = np.arange(int(ends[-1]) if ends.size else 0, dtype=np.int64) + shift
        return flat

    def take(self, documents: NDArray[Any]) -> Emissions:
        """Return the emissions of these documents."""
        flat = self.flat_index(documents)
        values = None if self.values is None else self.values.take(flat)
        return Emissions(None if self.counts is None else self.counts[documents], self.code[flat], values)

    def take_or_none(self, documents: NDArray[np.int64]) -> Emissions:
        """Return the emissions of these documents; a number below 0 means a document without contributions."""
        missing = documents < 0
        if not missing.any():
            return self.take(documents)
        return Emissions.join([self, Emissions.none(1)]).take(np.where(missing, self.documents, documents))

    def padded(self, n: int) -> Emissions:
        """Return these emissions, followed by documents without contributions up to n documents."""
        missing = n - self.documents
        return self if missing <= 0 else Emissions.join([self, Emissions.none(missing)])

    def spread(self, documents: Sequence[int], n: int) -> Emissions:
        """Return the emissions of n documents; these belong to `documents`, and the others are empty."""
        counts = np.zeros(n, np.int64)
        counts[documents] = 1 if self.counts is None else self.counts
        return Emissions(counts, self.code, self.values)

    @staticmethod
    def join(parts: Sequence[Emissions]) -> Emissions:
        """Concatenate emissions."""
        if len(parts) == 1:
            return parts[0]
        counts = None
        if any(p.counts is not None for p in parts):
            counts = np.concatenate([np.ones(p.code.size, np.int64) if p.counts is None else p.counts for p in parts])
        values: Column | None = None
        if any(p.values is not None for p in parts):
            values = Column.join([Column.nulls(int(p.code.size)) if p.values is None else p.values for p in parts])
        code = np.concatenate([p.code for p in parts]) if parts else np.zeros(0, np.int32)
        return Emissions(counts, code, values)

    def each(self, documents: Iterable[int]) -> Iterator[Emissions]:
        """Iterate over the emissions of each of these documents; the cost does not grow with other documents."""
        starts = self.starts().tolist()
        for i in documents:
            a, b = starts[i], starts[i + 1]
            values = None if self.values is None else self.values.part(a, b)
            yield Emissions(None if self.counts is None else self.counts[i : i + 1], self.code[a:b].copy(), values)

    def yielded(self) -> Yielded:
        """Return the contributions of all documents, by group code."""
        values = [None] * int(self.code.size) if self.values is None else self.values.values()
        return list(zip(self.code.tolist(), values, strict=True))

    def pairs(self, document: int, groups: Groups) -> Pairs:
        """Return the contributions of one document. For many documents call `pairs_of_each` once."""
        [own] = self.each([document])
        return [(groups.whole(code), value) for code, value in own.yielded()]

    def pairs_of_each(self, groups: Groups) -> list[Pairs]:
        """Return the contributions of each document."""
        flat = [(groups.whole(code), value) for code, value in self.yielded()]
        return [flat[a:b] for a, b in pairwise(self.starts().tolist())]

    @staticmethod
    def of_pairs(rows: Sequence[Pairs], groups: Groups) -> Emissions:
        """Make the emissions of documents from their pairs."""
        flat = [pair for row in rows for pair in row]
        code = np.fromiter((groups.code_of_encoded(group) for group, _ in flat), np.int32, len(flat))
        return Emissions(np.array([len(row) for row in rows], np.int64), code, Column.of([value for _, value in flat]))

    def inputs(self, fields: Sequence[Field]) -> dict[Field, Column]:
        """Return the columns that cells read, by field."""
        whole = Column.nulls(int(self.code.size)) if self.values is None else self.values
        out: dict[Field, Column] = {}
        for path in fields:
            out[path] = whole if path is None else Column.of(read_fields(whole.values(), path))
        return out


def _ranks(document: NDArray[np.int64], code: Codes) -> NDArray[np.int64] | None:
    """Return the rank of each contribution within its document and group, which are adjacent."""
    n = int(code.size)
    first = np.ones(n, bool)
    first[1:] = (document[1:] != document[:-1]) | (code[1:] != code[:-1])
    if first.all():
        return None
    start = np.maximum.accumulate(np.where(first, np.arange(n), 0))
    return np.arange(n) - start


def sorted_pairs(pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Sort the (group, value) pairs of a document in canonical order."""
    return sorted(pairs, key=lambda p: (encode_key(p[0]), order_key(p[1])))


def sorted_emissions(emissions: Emissions, groups: Groups) -> Emissions:
    """Sort the contributions of each document in canonical order, like `sorted_pairs`."""
    code, values = emissions.code, emissions.values
    assert emissions.counts is not None, "a single contribution is in order"
    distinct, local = local_codes(code, groups.size)
    whole = [groups.whole(c) for c in distinct.tolist()]
    rank = np.empty(distinct.size, np.int64)
    rank[sorted(range(distinct.size), key=whole.__getitem__)] = np.arange(distinct.size)
    place = np.repeat(np.arange(emissions.counts.size) << 32, emissions.counts) | rank[local]
    order = np.argsort(place, kind="stable")
    if values is None:
        return Emissions(emissions.counts, code[order], None)
    equal = np.diff(place[order]) == 0
    if equal.any():
        tied = np.append(equal, False) | np.append(False, equal)  # each with its document and group
        order[tied] = _by_value(order[tied], place, values)
    return Emissions(emissions.counts, code[order], values.take(order))


def _by_value(at: NDArray[np.int64], place: NDArray[np.int64], values: Column) -> NDArray[np.int64]:
    """Sort contributions by (place, value)."""
    place, values = place[at], values.take(at)
    if values.all_kinds() <= {LaneKind.NULL, LaneKind.INT}:
        return at[np.lexsort((values.lane, values.kinds(), place))]
    keys = list(zip(place.tolist(), map(order_key, values.values()), strict=True))
    return at[sorted(range(at.size), key=keys.__getitem__)]


def emissions_row(key: bytes, emissions: Emissions, groups: Groups) -> bytes:
    """Encode the row of these emissions."""
    distinct, codes = local_codes(emissions.code, groups.size)
    used = distinct.tolist()
    values: Any = None
    kinds: set[int] = set() if emissions.values is None else emissions.values.all_kinds()
    if emissions.values is not None and kinds == {LaneKind.INT}:
        values = emissions.values.lane.astype("<i8").tobytes()
    elif emissions.values is not None and not kinds <= {LaneKind.NULL}:
        values = emissions.values.values()
    counts = None if emissions.counts is None else emissions.counts.astype("<u4").tobytes()
    whole = [groups.whole(c) for c in used]
    return seal(key, pack([counts, whole, codes.astype("<u4").tobytes(), values]))


def emissions_rows(keys: Sequence[bytes], emissions: Emissions, groups: Groups) -> list[tuple[bytes, bytes]]:
    """Return the keys with the rows of these emissions, a row for each document."""
    values = emissions.values
    kinds: set[int] = set() if values is None else values.all_kinds()
    single = emissions.counts is None or bool((emissions.counts == 1).all())
    if not single or not kinds <= {LaneKind.NULL, LaneKind.INT}:
        each = emissions.each(range(len(keys)))
        return [(key, emissions_row(key, own, groups)) for key, own in zip(keys, each, strict=True)]
    count = None if emissions.counts is None else _ONE
    lanes: list[bytes | None] = [None] * len(keys)
    if values is not None:
        raw = values.lane.astype("<i8").tobytes()
        ints = values.kinds() == LaneKind.INT
        lanes = [raw[8 * i : 8 * i + 8] if is_int else None for i, is_int in enumerate(ints.tolist())]
    whole = map(groups.whole, emissions.code.tolist())
    rows = zip(keys, whole, lanes, strict=True)
    return seal_many((key, _encode([count, [group], _FIRST, lane])) for key, group, lane in rows)


def read_joined(keys: Sequence[bytes], rows: Sequence[bytes], groups: Groups, where: str) -> Emissions:
    """Decode the rows of several keys, and join their emissions."""
    counts: list[bytes | None] = []
    whole: list[list[bytes]] = []
    codes: list[bytes] = []
    values: list[Any] = []
    for payload in unseal_many(keys, rows, where):
        assert payload is not None, "asked of rows that exist"
        count, groups_of_row, code, value = unpack(payload)
        counts.append(count)
        whole.append(groups_of_row)
        codes.append(code)
        values.append(value)
    sizes = [len(own) >> 2 for own in codes]
    ends = np.cumsum([0, *map(len, whole)])
    known = groups.codes(decode_keys([group for own in whole for group in own]))
    index = np.frombuffer(b"".join(codes), "<u4") + np.repeat(ends[:-1], sizes)
    column: Column | None = None
    if all(type(own) is bytes for own in values):
        column = Column(np.frombuffer(b"".join(values), "<i8").astype(np.int64))
    elif any(own is not None for own in values):
        column = Column.of([value for own, size in zip(values, sizes) for value in _listed_values(own, size)])
    joined = None
    if any(own is not None for own in counts):
        ones = [_ONE * size if own is None else own for own, size in zip(counts, sizes)]
        joined = np.frombuffer(b"".join(ones), "<u4").astype(np.int64)
    return Emissions(joined, known[index], column)


def _listed_values(values: Any, size: int) -> list[Any]:
    if values is None:
        return [None] * size
    own: list[Any] = np.frombuffer(values, "<i8").tolist() if isinstance(values, bytes) else values
    return own


def read_emissions(key: bytes, row: bytes, groups: Groups, where: str) -> Emissions:
    """Decode a row of emissions."""
    return read_joined([key], [row], groups, where)
