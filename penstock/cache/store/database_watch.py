"""Watch databases: keep a value derived from their rows, and the keys that later commits changed.

A snapshot knows the number of its commit. So a reader can take the value derived at an earlier commit, and correct it
for the changed keys only. Invariants:

- the keys changed since a value are complete: if the keys of a commit are unknown, the value is dropped;
- the keys are unknown for commits of other processes, and for a transaction that began before the watch;
- the number of keys and of watches is bounded. A database without a watch costs a commit nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from threading import RLock
from typing import Any, NamedTuple, Protocol, runtime_checkable

from penstock.cache.store.protocol import Reader

__all__ = ["Changed", "Moment", "Watched", "Watches"]

Changed = Mapping[str, Collection[bytes] | None]
"""Map each database to the keys that a commit changed, or to None if all of them may have changed."""

_MOST_KEYS = 1 << 17  # keys that are kept per database
_MOST = 64  # databases that are watched at the same time


class _DatabaseWatch:
    """The watch of one database: the value as of commit `at`, and the keys of the later commits up to `until`."""

    __slots__ = ("at", "keys", "log", "until", "value")

    def __init__(self, at: int, value: Any) -> None:
        self.at = at
        self.until = at
        self.value = value
        self.log: list[tuple[int, Collection[bytes]]] = []
        self.keys = 0

    def note(self, number: int, keys: Collection[bytes]) -> bool:
        """Add the keys of the next commit. Return False if there are too many keys."""
        self.until = number
        if keys:
            self.log.append((number, keys))
            self.keys += len(keys)
        if self.keys > 2 * _MOST_KEYS:
            self._shorten()
            return self.keys <= _MOST_KEYS
        return True

    def _shorten(self) -> None:
        """Keep each key once, with the first commit that changed it."""
        first: dict[bytes, int] = {}
        for number, keys in self.log:
            for key in keys:
                first.setdefault(key, number)
        by_commit: dict[int, list[bytes]] = {}
        for key, number in first.items():
            by_commit.setdefault(number, []).append(key)
        self.log.clear()
        self.log.extend(by_commit.items())
        self.keys = len(first)


class Watches:
    """The watches of one store in this process.

    >>> watches = Watches()
    >>> watches.derived("rows", 7)
    >>> watches.keep("rows", 7, "derived")
    >>> watches.committed(8, {"rows": [b"Joe"]})
    >>> watches.committed(9, {"rows": []})
    >>> watches.derived("rows", 7), watches.derived("rows", 9), watches.derived("rows", 10)
    (('derived', []), ('derived', [b'Joe']), None)
    """

    def __init__(self) -> None:
        self._lock = RLock()  # the garbage collector may end a reader inside these methods
        self._watches: dict[str, _DatabaseWatch] = {}

    def names(self) -> Collection[str]:
        """Return the watched databases."""
        return tuple(self._watches)

    def committed(self, number: int, changed: Changed) -> None:
        """Record the keys that a commit changed.

        `changed` has each database that was watched when the transaction began.
        """
        with self._lock:
            for name, watch in list(self._watches.items()):
                keys = changed.get(name)
                if keys is None or number not in (watch.until, watch.until + 1):
                    self._watches[name] = _DatabaseWatch(number, None)
                elif not watch.note(number, keys):
                    self._watches.pop(name, None)

    def committed_rows(self, number: int, cleared: Collection[str], rows: Mapping[str, Mapping[bytes, object]]) -> None:
        """Record a commit that put or deleted these rows, after it had emptied the databases `cleared`."""
        if self._watches:
            changed = {name: None if name in cleared else list(rows.get(name, ())) for name in self.names()}
            self.committed(number, changed)

    def derived(self, name: str, number: int) -> tuple[Any, Sequence[bytes]] | None:
        """Return the kept value of a database, and the keys that changed from it to this commit.

        Return None if they are unknown. A database without a usable watch is watched from now on.
        """
        with self._lock:
            watch = self._watches.get(name)
            if watch is None or number > watch.until:
                self._begin(name, number, None)
                return None
            if number < watch.at or watch.value is None:
                return None
            return watch.value, [key for own, keys in watch.log if own <= number for key in keys]

    def keep(self, name: str, number: int, value: Any) -> None:
        """Keep a value as of this commit, unless a value of a later commit is kept. A value of None ends the watch."""
        with self._lock:
            watch = self._watches.get(name)
            if value is None:
                if watch is not None and number >= watch.at:
                    del self._watches[name]
            elif watch is None or number > watch.until:
                self._begin(name, number, value)
            elif number >= watch.at:
                watch.at, watch.value = number, value
                watch.log = [(own, keys) for own, keys in watch.log if own > number]
                watch.keys = sum(len(keys) for _, keys in watch.log)

    def _begin(self, name: str, number: int, value: Any) -> None:
        if name not in self._watches and len(self._watches) >= _MOST:
            del self._watches[next(iter(self._watches))]
        self._watches[name] = _DatabaseWatch(number, value)

    def clear(self) -> None:
        """End all watches."""
        with self._lock:
            self._watches.clear()


class Moment(NamedTuple):
    """A snapshot, the number of its commit, and the watches of its store."""

    reader: Reader
    commit: int
    watches: Watches


@runtime_checkable
class Watched(Protocol):
    """A reader over snapshots of stores that have watches."""

    def moments(self) -> Sequence[Moment]:
        """Return these snapshots. Each row is in one of them."""
        ...
