"""Read one view in one snapshot: single groups, ranges, rollups and contributions.

Rows are read by their stored keys. Keys of long groups are stored abbreviated, and several may share their beginning.
Such runs are sorted by the whole key, so every scan is in group order. A reader keeps no rows that it returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import Any, Protocol

from penstock.cache import (
    LONG,
    DatabaseLabel,
    DefinitionError,
    KeyKind,
    MissingExtra,
    PenstockError,
    Reader,
    StoreDamaged,
    checked,
    decode_key,
    encode_entry,
    encode_key,
    is_long,
    key_error,
    named,
    prefix_bounds,
    stored_key,
    stored_key_text,
)
from penstock.views.answers.changes import Position
from penstock.views.answers.contributions import Contribution, Progress, Why
from penstock.views.answers.rollup import HEAD, Entry, Rollup
from penstock.views.answers.row import Row

_NEXT = b"\0"  # the least encoding greater than another is that one and this byte
_ABOVE = b"\xff" * (LONG - HEAD + 1)
_ABSENT = object()
_TOGETHER = 1024  # rows that are merged together in memory


class Codec(Protocol):
    """Methods to read the rows of a view."""

    @property
    def adds_up(self) -> bool:
        """True if accumulators may be merged in any order and grouping, because no user function is part of them."""
        ...

    def states(self, rows: Sequence[tuple[bytes, bytes]], where: str) -> Sequence[Any]:
        """Return accumulators that, merged, equal those of these rows. Use it only if `adds_up`."""
        ...

    def decode(self, key: bytes, row: bytes, where: str) -> Any:
        """Decode the accumulators of a row."""
        ...

    def result(self, state: Any) -> Any:
        """Return the result of accumulators."""
        ...

    def merged(self, states: Sequence[Any]) -> Any:
        """Merge the accumulators of several groups. Raise DefinitionError if the reducers can't be merged."""
        ...


class ViewReader:
    """The groups and results of one view in one snapshot.

    `held` returns the encoded groups with contributions of documents that the view later could not accept. `why`
    returns the contributions of groups. `as_of` is None, unless the view is being built under another definition. Then
    it is the position that the view shows until the switch. `final` tells if the window of a group is closed.

    >>> import penstock as ps
    >>> app = ps.App("shop")
    >>> users = app.table("users", key="id")
    >>> namecount = users.view("namecount", key="name", reduce=ps.count())
    >>> with ps.open(app, None) as engine:
    ...     counts = engine.put_many("users", [{"id": i, "name": name} for i, name in enumerate(["Sue", "Joe", "Sam"])])
    ...     with engine.snapshot() as snap:
    ...         view = snap.view("namecount")
    ...         view["Sue"], view.get("Bob", default=0), len(view), [row.key for row in view.items(prefix="S")]
    (1, 0, 3, ['Sam', 'Sue'])
    """

    def __init__(
        self,
        name: str,
        reader: Callable[[], Reader],
        db: str,
        codec: Codec,
        held: Callable[[], frozenset[bytes]],
        why: Why,
        as_of: Position | None = None,
        index: bool = False,
        final: Callable[[Any], bool] | None = None,
    ) -> None:
        self.name = name
        self.as_of = as_of
        self._where = f"view {name!r}"
        self._reader = reader
        self._db = db
        self._codec = codec
        self._held = held
        self._why = why
        self._index = index
        self._final = final

    def __repr__(self) -> str:
        return f"<view {self.name!r}>"

    def __getitem__(self, group: Any) -> Any:
        value = self.get(group, _ABSENT)
        if value is _ABSENT:
            raise key_error(group)
        return value

    def __contains__(self, group: Any) -> bool:
        return self.get(group, _ABSENT) is not _ABSENT

    def __len__(self) -> int:
        return self._reader().count(self._db)

    def __iter__(self) -> Iterator[Row]:
        return self.items()

    def get(self, group: Any, default: Any = None) -> Any:
        """Return the result of a group, or `default` if it has no row."""
        return self._get([group], default)[0]

    @checked
    def get_many(self, groups: Iterable[Any], default: Any = None) -> list[Any]:
        """Return the results of several groups in their order with one read."""
        return self._get(groups, default)

    def _get(self, groups: Iterable[Any], default: Any) -> list[Any]:
        codec = self._codec
        if self._index:
            found = self._found(groups)
            return [default if row is None else codec.result(self._decode(key, row)) for _, key, row in found]
        keys = [stored_key(encode_key(group)) for group in groups]
        return [
            default if row is None else codec.result(self._decode(key, row))
            for key, row in zip(keys, self._reader().get_many(self._db, keys), strict=True)
        ]

    def _found(self, groups: Iterable[Any]) -> Iterable[tuple[bytes, bytes, bytes | None]]:
        """Return the encoding, key and row of each group. In an index, (group, key) means the value of rank 0."""
        encoded = list(map(encode_key, groups))
        keys = list(map(stored_key, encoded))
        rows = self._reader().get_many(self._db, keys)
        short = [i for i, row in enumerate(rows) if row is None] if self._index else []
        for i in short:
            entry = decode_key(encoded[i])
            if isinstance(entry, tuple) and len(entry) == 2:
                encoded[i] = encode_entry((*entry, 0))
                keys[i] = stored_key(encoded[i])
        if short:
            for i, row in zip(short, self._reader().get_many(self._db, [keys[i] for i in short]), strict=True):
                rows[i] = row
        return zip(encoded, keys, rows, strict=True)

    def row(self, group: Any) -> Row:
        """Return the row of a group, which tells whether it is held. Raise KeyError if there is none."""
        [(encoded, key, row)] = self._found([group])
        if row is None:
            raise key_error(group)
        return self._row(encoded, key, row, self._held())

    @checked
    def rows(self, groups: Iterable[Any]) -> list[Row | None]:
        """Return the rows of several groups in their order, None for a group without a row."""
        held = self._held()
        return [None if row is None else self._row(whole, key, row, held) for whole, key, row in self._found(groups)]

    @checked
    def items(
        self,
        *,
        prefix: Any = None,
        start: Any = _ABSENT,
        stop: Any = _ABSENT,
        through: Any = _ABSENT,
        reverse: bool = False,
        limit: int | None = None,
        final: bool = False,
    ) -> Iterator[Row]:
        """Yield rows in group order: of a prefix (of text or of a tuple), from `start` on, before `stop`.

        `through` is an inclusive end. A tuple there includes all groups that begin with it. `reverse` yields the last
        row first, and `limit` bounds the number of rows. With `final`, only rows of closed windows are yielded.
        """
        if final and self._final is None:
            raise DefinitionError(f"view {self.name!r} has no window, so no row of it is ever final")
        low, high = _bounds(prefix, start, stop, through, limit)
        held = self._held()
        rows = (self._row(whole, key, row, held, state) for whole, key, row, state in self._ordered(low, high, reverse))
        return islice((row for row in rows if row.final) if final else rows, limit)

    @checked
    def rollup(
        self,
        level: int = 1,
        *,
        prefix: Any = None,
        start: Any = _ABSENT,
        stop: Any = _ABSENT,
        through: Any = _ABSENT,
        reverse: bool = False,
        limit: int | None = None,
    ) -> Iterator[Row]:
        """Yield results by the first `level` parts of tuple groups, in group order. Other groups keep their own
        results.

        `level=0` gives one result over all groups, under the group (). `prefix`, `start`, `stop` and `through` select
        the groups, and `limit` bounds the number of results.

        for row in snap.view("revenue").rollup(level=1):
            print(row.key, row.value)  # ('NO',) {'n': 12, 'total': 340}
        """
        if level < 0:
            raise KeyKind(level, "level= is a number of parts, 0 or more")
        low, high = _bounds(prefix, start, stop, through, limit)
        codec = self._codec
        if not codec.adds_up:
            return islice(self._rolled(level, self._ordered(low, high, reverse)), limit)
        merged = Rollup(self._db, level, self._held(), self._ordered_in, self._states, codec.merged, codec.result)
        return islice(merged.rows(self._reader(), low, high, reverse), limit)

    def _rolled(self, level: int, rows: Iterable[Entry]) -> Iterator[Row]:
        codec, held = self._codec, self._held()

        def part(entry: Entry) -> bytes:
            group = decode_key(entry[0]) if level else ()
            return encode_key(group[:level]) if isinstance(group, tuple) else entry[0]

        for prefix, entries in groupby(rows, part):
            stale, failed, parts = False, None, list[Any]()
            while run := list(islice(entries, _TOGETHER)):
                states = [self._decode(key, row) if s is None else s for _, key, row, s in run]
                stale = stale or any(s.held is not None for s in states) or any(entry[0] in held for entry in run)
                if failed is None:
                    parts.append(codec.merged(states))
                    failed = parts[-1] if len(states) > 1 and parts[-1].held is not None else None
            together = codec.merged(parts) if failed is None else failed
            yield Row(decode_key(prefix), codec.result(together), stale or together.held is not None)

    def _states(self, entries: Sequence[Entry]) -> Sequence[Any]:
        """Return accumulators that, merged, equal those of these rows."""
        rows = [(key, row) for _, key, row, state in entries if state is None]
        try:
            return [*self._codec.states(rows, self._where), *(entry[3] for entry in entries if entry[3] is not None)]
        except StoreDamaged as damage:
            raise self._named(damage) from damage

    @checked
    def why(self, group: Any, *, progress: Progress | None = None) -> list[Contribution]:
        """Return the contributions behind a result, in the order of their documents' keys. A group without a row has
        none.

        If the view stores contributions (`sources=True`, a reducer without inverse, a plain index), this reads only
        those of the group. Otherwise it scans the table. `progress` then gets the numbers of stored document versions
        passed, and of all. In a plain index `group` is the group that documents were mapped to.

        for contribution in snap.view("spent").why("Sue"):
            print(contribution.key, contribution.value, contribution.document)
        """
        return self.why_many([group], progress=progress)[0]

    @checked
    def why_many(self, groups: Iterable[Any], *, progress: Progress | None = None) -> list[list[Contribution]]:
        """Return the contributions behind several results, in the order of the groups, with at most one scan.

        sue, joe = snap.view("spent").why_many(["Sue", "Joe"])
        """
        return self._why([encode_key(group) for group in groups], progress)

    def to_arrow(self) -> Any:
        """Return the whole view as an Arrow table: columns `key` and `value`, or `key` and one column per reducer."""
        try:
            import pyarrow
        except ImportError:
            raise MissingExtra("pyarrow", "arrow") from None
        rows = list(self.items())
        columns: dict[str, list[Any]] = {"key": [list(r.key) if isinstance(r.key, tuple) else r.key for r in rows]}
        if rows and all(isinstance(r.value, dict) for r in rows) and "key" not in rows[0].value:
            for name in rows[0].value:
                columns[name] = [r.value.get(name) for r in rows]
        else:
            columns["value"] = [r.value for r in rows]
        try:
            return pyarrow.table(columns)
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, OverflowError) as error:
            raise PenstockError(
                f"view {self.name!r} has keys or results of several kinds, which an Arrow column can't hold: {error}; "
                "read it with items() instead"
            ) from error

    def to_pandas(self) -> Any:
        """Return the whole view as a pandas DataFrame with the columns of `to_arrow`."""
        try:
            import pandas
        except ImportError:
            raise MissingExtra("pandas", "arrow") from None
        rows = list(self.items())
        if rows and all(isinstance(r.value, dict) for r in rows) and "key" not in rows[0].value:
            return pandas.DataFrame([{"key": r.key, **r.value} for r in rows])
        return pandas.DataFrame({"key": [r.key for r in rows], "value": [r.value for r in rows]})

    def _decode(self, key: bytes, row: bytes) -> Any:
        try:
            return self._codec.decode(key, row, self._where)
        except StoreDamaged as damage:
            raise self._named(damage) from damage

    def _named(self, damage: StoreDamaged) -> StoreDamaged:
        """Describe damage in users' terms."""
        return named(damage, {self._where: DatabaseLabel(self._where, stored_key_text("group"), restating(self.name))})

    def _row(self, whole: bytes, key: bytes, row: bytes, held: frozenset[bytes], state: Any = None) -> Row:
        own = state if state is not None else self._decode(key, row)
        group, stale = decode_key(whole), own.held is not None or whole in held
        return Row(group, self._codec.result(own), stale, self._final is not None and self._final(group))

    def _ordered(self, low: bytes, high: bytes | None, reverse: bool) -> Iterator[Entry]:
        """Yield the rows of an interval in group order."""
        return self._ordered_in(self._reader(), low, high, reverse)

    def _ordered_in(self, reader: Reader, low: bytes, high: bytes | None, reverse: bool) -> Iterator[Entry]:
        first = low if len(low) <= HEAD else low[:HEAD]
        last = high if high is None or len(high) <= HEAD else high[:HEAD] + _ABOVE
        scanned = reader.scan(self._db, first, last, reverse)
        for cut, run in groupby(scanned, lambda item: item[0][:HEAD] if len(item[0]) >= HEAD else None):
            if cut is None:
                for key, row in run:
                    yield key, key, row, None
                continue
            known: list[Entry] = []
            for key, row in run:
                state = self._decode(key, row)
                known.append((state.whole if is_long(key) else key, key, row, state))
            for entry in sorted(known, key=lambda e: e[0], reverse=reverse):
                if low <= entry[0] and (high is None or entry[0] < high):
                    yield entry


def restating(view: str) -> str:
    """Return the next step after damage in a view.

    >>> restating("names")
    "run `penstock restate names`, or engine.restate('names')"
    """
    return f"run `penstock restate {view}`, or engine.restate({view!r})"


def _bounds(prefix: Any, start: Any, stop: Any, through: Any, limit: int | None) -> tuple[bytes, bytes | None]:
    """Return the encoded bounds of the requested groups: start inclusive, end exclusive."""
    if limit is not None and limit < 0:
        raise KeyKind(limit, "limit= is a number of rows, 0 or more")
    low, high = (b"", None) if prefix is None else prefix_bounds(prefix)
    if start is not _ABSENT:
        low = max(low, encode_key(start))
    ends = [] if high is None else [high]
    if stop is not _ABSENT:
        ends.append(encode_key(stop))
    if through is not _ABSENT:
        beyond = isinstance(through, tuple | list)
        ends.append(prefix_bounds(through)[1] if beyond else encode_key(through) + _NEXT)
    return low, min(ends, default=None)
