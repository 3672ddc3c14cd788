"""Readers of views: one snapshot, every way of asking for groups.

Rows are read by their stored keys; of groups too long to be stored whole, runs that share their beginning are put into
group order by the whole key, so that every scan is in group order. A reader holds no memory of rows it gave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import Any, Protocol

from penstock.cache import (
    LONG,
    KeyKind,
    MissingExtra,
    PenstockError,
    Reader,
    decode_key,
    encode_key,
    is_long,
    prefix_bounds,
    stored_key,
)
from penstock.views.row import Row

_HEAD = 368
_ABOVE = b"\xff" * (LONG - _HEAD + 1)
_ABSENT = object()


class Codec(Protocol):
    """How rows of a view are read."""

    def decode(self, key: bytes, row: bytes, where: str) -> Any:
        """The accumulators that a row holds."""
        ...

    def result(self, state: Any) -> Any:
        """The result that they make."""
        ...

    def merged(self, states: Sequence[Any]) -> Any:
        """The accumulators of several groups together; DefinitionError where the reducers can't."""
        ...


class ViewReader:
    """The groups and results of one view, in one snapshot.

    `held` gives the encodings of groups that hold contributions of documents that the view could not take since.

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
        self, name: str, reader: Callable[[], Reader], db: str, codec: Codec, held: Callable[[], frozenset[bytes]]
    ) -> None:
        self.name = name
        self._reader = reader
        self._db = db
        self._codec = codec
        self._held = held

    def __repr__(self) -> str:
        return f"<view {self.name!r}>"

    def __getitem__(self, group: Any) -> Any:
        value = self.get(group, _ABSENT)
        if value is _ABSENT:
            raise KeyError(group)
        return value

    def __contains__(self, group: Any) -> bool:
        return self.get(group, _ABSENT) is not _ABSENT

    def __len__(self) -> int:
        return self._reader().count(self._db)

    def __iter__(self) -> Iterator[Row]:
        return self.items()

    def get(self, group: Any, default: Any = None) -> Any:
        """The result of a group, or `default` if it has no row."""
        return self.get_many([group], default)[0]

    def get_many(self, groups: Iterable[Any], default: Any = None) -> list[Any]:
        """The results of several groups, in their order, by one read."""
        keys = [stored_key(encode_key(group)) for group in groups]
        codec, where = self._codec, self._where
        return [
            default if row is None else codec.result(codec.decode(key, row, where))
            for key, row in zip(keys, self._reader().get_many(self._db, keys), strict=True)
        ]

    def row(self, group: Any) -> Row:
        """The row of a group, which tells whether it is held; KeyError if there is none."""
        encoded = encode_key(group)
        key = stored_key(encoded)
        row = self._reader().get_many(self._db, [key])[0]
        if row is None:
            raise KeyError(group)
        return self._row(encoded, key, row, self._held())

    def items(
        self,
        *,
        prefix: Any = None,
        start: Any = _ABSENT,
        stop: Any = _ABSENT,
        reverse: bool = False,
        limit: int | None = None,
    ) -> Iterator[Row]:
        """Rows in group order: of a prefix (of text or of a tuple), from `start` on, before `stop`, the last first."""
        if limit is not None and limit < 0:
            raise KeyKind(limit, "limit= is a number of rows, 0 or more")
        low, high = (b"", None) if prefix is None else prefix_bounds(prefix)
        if start is not _ABSENT:
            low = max(low, encode_key(start))
        if stop is not _ABSENT:
            bound = encode_key(stop)
            high = bound if high is None else min(high, bound)
        held = self._held()
        rows = (self._row(whole, key, row, held, state) for whole, key, row, state in self._ordered(low, high, reverse))
        return islice(rows, limit)

    def rollup(self, level: int = 1) -> Iterator[Row]:
        """Results by the first `level` parts of tuple groups, in group order; other groups stand for themselves.

        for row in snap.view("revenue").rollup(level=1):
            print(row.key, row.value)  # ('NO',) {'n': 12, 'total': 340}
        """
        if level < 0:
            raise KeyKind(level, "level= is a number of parts, 0 or more")
        codec = self._codec

        def part(entry: tuple[bytes, bytes, bytes, Any]) -> bytes:
            group = decode_key(entry[0])
            return encode_key(group[:level]) if isinstance(group, tuple) else entry[0]

        def decoded() -> Iterator[tuple[bytes, bytes, bytes, Any]]:
            for whole, key, row, state in self._ordered(b"", None, False):
                yield whole, key, row, state if state is not None else codec.decode(key, row, self._where)

        held = self._held()
        for prefix, entries in groupby(decoded(), part):
            states: list[Any] = []
            stale = False
            for whole, _, _, state in entries:
                states.append(state)
                stale = stale or state.held is not None or whole in held
            together = codec.merged(states)
            yield Row(decode_key(prefix), codec.result(together), stale or together.held is not None)

    def to_arrow(self) -> Any:
        """The whole view as an Arrow table: columns `key` and `value`, or `key` and a column for each reducer."""
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
        """The whole view as a pandas DataFrame, with the columns of `to_arrow`."""
        try:
            import pandas
        except ImportError:
            raise MissingExtra("pandas", "arrow") from None
        rows = list(self.items())
        if rows and all(isinstance(r.value, dict) for r in rows) and "key" not in rows[0].value:
            return pandas.DataFrame([{"key": r.key, **r.value} for r in rows])
        return pandas.DataFrame({"key": [r.key for r in rows], "value": [r.value for r in rows]})

    @property
    def _where(self) -> str:
        return f"view {self.name!r}"

    def _row(self, whole: bytes, key: bytes, row: bytes, held: frozenset[bytes], state: Any = None) -> Row:
        own = state if state is not None else self._codec.decode(key, row, self._where)
        return Row(decode_key(whole), self._codec.result(own), own.held is not None or whole in held)

    def _ordered(self, low: bytes, high: bytes | None, reverse: bool) -> Iterator[tuple[bytes, bytes, bytes, Any]]:
        """(whole key, stored key, row, state if it was decoded) in group order."""
        first = low if len(low) <= _HEAD else low[:_HEAD]
        last = high if high is None or len(high) <= _HEAD else high[:_HEAD] + _ABOVE
        scanned = self._reader().scan(self._db, first, last, reverse)
        for cut, run in groupby(scanned, lambda item: item[0][:_HEAD] if len(item[0]) >= _HEAD else None):
            if cut is None:
                for key, row in run:
                    yield key, key, row, None
                continue
            known: list[tuple[bytes, bytes, bytes, Any]] = []
            for key, row in run:
                state = self._codec.decode(key, row, self._where)
                known.append((state.whole if is_long(key) else key, key, row, state))
            for entry in sorted(known, key=lambda e: e[0], reverse=reverse):
                if low <= entry[0] and (high is None or entry[0] < high):
                    yield entry
