"""Define windows: the first part of a view's groups, which is the start of the time span of a record or document.

A window is plain data, so every process can compute its groups, also one without the app. Invariants:

- windows are half open, [start, start + size), and aligned to 1970 UTC plus `offset`;
- a start has the kind of the field: a number in the unit, or RFC 3339 text in one form, so that texts sort by time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from penstock.cache import (
    UNITS,
    DefinitionError,
    duration_of,
    duration_text,
    parse_rfc3339,
    value_text,
)
from penstock.views.document_paths import parse_path, reach
from penstock.views.field_expressions import Where, as_where, where_from
from penstock.views.reducer_inputs import Reducers, fields_read
from penstock.views.reducer_protocols import TS, Path
from penstock.views.view_maps import FieldMap, FunctionMap, PlainMap, make_field_map

__all__ = ["Window", "WindowGroups", "make_key_map", "window", "window_map_from", "window_of"]

_MOST = 10_000  # windows of one document
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Window:
    """Time spans of a field, made by `ps.window`: of `size`, one beginning `every`, aligned to 1970 UTC plus `offset`.

    All of them are microseconds.

    >>> window("at", "1m").size
    60000000
    """

    path: Path
    size: int
    every: int
    offset: int

    def starts(self, time: int) -> Iterator[int]:
        """Yield the starts of the windows that contain a time, in order.

        >>> own = window("at", "10s", every="5s")
        >>> [start // 1_000_000 for start in own.starts(12_000_000)]
        [5, 10]
        """
        last = time - (time - self.offset) % self.every
        first = last - (self.size - 1 - (time - last)) // self.every * self.every
        yield from range(first, last + 1, self.every)

    def describe(self) -> dict[str, object]:
        """Return the window as plain data."""
        return {"path": list(self.path), **{name: duration_text(getattr(self, name)) for name in _DURATIONS}}

    @property
    def whole(self) -> bool:
        """True if all starts are whole seconds."""
        return self.every % _SECOND == 0 and self.offset % _SECOND == 0


_DURATIONS = ("size", "every", "offset")


def window(path: str, size: str | float, *, every: str | float | None = None, offset: str | float = "0s") -> Window:
    """Return a window for the first part of `key=` of a view: the start of the time span that contains the field.

    `size` and `every` are durations such as "1m". With `every`, a window begins that often, and a record is in each
    window that contains it. Windows are aligned to 1970 UTC plus `offset`. A numeric field is in the unit of its
    stream, or in seconds in a table.

    >>> import penstock as ps
    >>> searches = ps.App("web").stream("searches", ts="at")
    >>> counts = searches.view("counts", key=(ps.window("at", "1m"), "query"), reduce=ps.count())
    """
    what = f"of the window of {path!r}"
    long = duration_of(size, f"size {what}")
    step = long if every is None else duration_of(every, f"every= {what}")
    if not 0 < step <= long or long > step * _MOST:
        raise DefinitionError(
            f"the window of {path!r} has size {duration_text(long)} and every={duration_text(step)}; write a size "
            f"above 0, and every= up to the size, with at most {_MOST:,} windows for one time"
        )
    own = parse_path(path, f"path {what}")
    return Window(own, long, step, duration_of(offset, f"offset= {what}") % step)


@dataclass(frozen=True, slots=True)
class WindowGroups(PlainMap):
    """The map of a view with a window, as a function of a document: a group and value for each window."""

    window: Window
    rest: tuple[Path, ...]
    single: bool
    value: Path | None
    where: Where | None
    unit: str
    fields: tuple[str, ...] | None  # the fields that reducers read; None: the whole value

    def __call__(self, document: Any) -> list[tuple[Any, Any]]:
        """Return the groups and values of a document. Raise ValueError if its time is none."""
        if self.where is not None and not self.where.evaluate(lambda path: reach(document, path)):
            return []
        value = document if self.value is None else reach(document, self.value)
        if self.fields is not None:
            known = value if isinstance(value, Mapping) else {}
            value = {name: known[name] for name in self.fields if name in known} if self.fields else None
        rest = tuple(reach(document, path) for path in self.rest)
        return [(start if self.single else (start, *rest), value) for start in self.starts(document)]

    def starts(self, document: Any) -> list[Any]:
        """Return the starts of the windows of a document, as parts of groups."""
        found = reach(document, self.window.path)
        if found is None:
            return [None]
        if isinstance(found, str):
            return [self._text(start) for start in self.window.starts(parse_rfc3339(found) // 1000)]
        if isinstance(found, bool) or not isinstance(found, int | float) or found != found or abs(found) > _FAREST:
            raise ValueError(f"its {'.'.join(self.window.path)} is {value_text(found)}, which is no time")
        factor = UNITS[self.unit]
        time = found * factor if isinstance(found, int) else int(found * factor // 1)
        return [start // factor if start % factor == 0 else start / factor for start in self.window.starts(time)]

    def end(self, group: Any) -> int | None:
        """Return the end of the window of a group, in microseconds; None if it has no time."""
        start = group if self.single else group[0]
        if start is None:
            return None
        if isinstance(start, str):
            return parse_rfc3339(start) // 1000 + self.window.size
        factor = UNITS[self.unit]
        return (start * factor if isinstance(start, int) else round(start * factor)) + self.window.size

    def bound(self, time: int, text: bool) -> Any:
        """Return the first part of groups whose window ends at a time."""
        start = time - self.window.size
        if text:
            return self._text(start)
        factor = UNITS[self.unit]
        return start // factor if start % factor == 0 else start / factor

    def _text(self, start: int) -> str:
        shown = (_EPOCH + timedelta(microseconds=start)).strftime("%Y-%m-%dT%H:%M:%S").zfill(19)
        return f"{shown}Z" if self.window.whole else f"{shown}.{start % _SECOND:06d}Z"

    def describe(self) -> dict[str, object]:
        """Return the map as plain data."""
        return {
            "by": "window",
            "window": self.window.describe(),
            "key": {"paths": [list(path) for path in self.rest], "single": self.single},
            "value": None if self.value is None else list(self.value),
            "where": None if self.where is None else self.where.describe(),
            "unit": self.unit,
            "reads": None if self.fields is None else list(self.fields),
        }


_FAREST = float(1 << 62)


def has_window(key: object) -> bool:
    """Return True if a part of `key=` is a window."""
    return isinstance(key, Window) or (isinstance(key, tuple) and any(isinstance(part, Window) for part in key))


def make_key_map(
    view: str, key: object, value: object, where: object, unit: Callable[[str], str], reducers: Reducers
) -> FieldMap | FunctionMap:
    """Make the map of a view with `key=`. `unit` returns the unit of times of its source."""
    if has_window(key):
        return make_window_map(view, key, value, where, unit(view), reducers)
    return make_field_map(view, key, value, where)


def make_window_map(view: str, key: object, value: object, where: object, unit: str, reducers: Reducers) -> FunctionMap:
    """Make the map of a view whose key begins with a window."""
    parts = key if isinstance(key, tuple) else (key,)
    first, *others = parts
    if not isinstance(first, Window) or any(isinstance(part, Window) for part in others):
        raise DefinitionError(
            f"key= of view {view!r} has a window that is not its first part; write key=(ps.window('at', '1m'), 'query')"
        )
    rest = tuple(parse_path(part, f"part {i} of key= of view {view!r}") for i, part in enumerate(others, 2))
    fields = [field for field in fields_read(reducers) if field != TS]
    whole = not reducers or any(not field for field in fields)
    return FunctionMap(
        WindowGroups(
            first,
            rest,
            not isinstance(key, tuple),
            None if value is None else parse_path(value, f"value= of view {view!r}"),
            None if where is None else as_where(where),
            unit,
            None if whole else tuple(dict.fromkeys(field[0] for field in fields if field)),
        )
    )


def window_map_from(described: Mapping[str, Any]) -> FunctionMap:
    """Return the map of a stored definition."""
    own, key, value, where = (described[name] for name in ("window", "key", "value", "where"))
    sizes = [duration_of(own[name], f"{name}=") for name in _DURATIONS]
    reads = described["reads"]
    return FunctionMap(
        WindowGroups(
            Window(tuple(own["path"]), *sizes),
            tuple(tuple(path) for path in key["paths"]),
            key["single"],
            None if value is None else tuple(value),
            None if where is None else where_from(where),
            described["unit"],
            None if reads is None else tuple(reads),
        )
    )


def window_of(map_: object) -> WindowGroups | None:
    """Return the window of a view's map; None if it has none."""
    found = getattr(map_, "function", None)
    return found if isinstance(found, WindowGroups) else None
