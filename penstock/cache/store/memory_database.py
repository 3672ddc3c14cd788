"""A database in memory: a dict of rows, and the sorted list of its keys."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator

_FEW = 32


class Database:
    """Rows by key. `made` is the commit that made this copy, `size` the bytes of its rows."""

    __slots__ = ("keys", "made", "rows", "size")

    def __init__(self, made: int, rows: dict[bytes, bytes], keys: list[bytes], size: int) -> None:
        self.made = made
        self.rows = rows
        self.keys = keys
        self.size = size

    def copy(self, made: int) -> Database:
        """Return a copy that commit `made` may change."""
        return Database(made, self.rows.copy(), self.keys.copy(), self.size)

    def walk(self, start: bytes, stop: bytes | None, reverse: bool) -> Iterator[bytes]:
        """Yield the keys in a range."""
        first = bisect_left(self.keys, start)
        last = len(self.keys) if stop is None else max(first, bisect_left(self.keys, stop))
        span = range(last - 1, first - 1, -1) if reverse else range(first, last)
        return map(self.keys.__getitem__, span)

    def floor(self, key: bytes) -> tuple[bytes, memoryview] | None:
        """Return the last row at or before a key, or None."""
        at = bisect_right(self.keys, key) - 1
        return None if at < 0 else (self.keys[at], memoryview(self.rows[self.keys[at]]))

    def apply(self, staged: dict[bytes, bytes | None]) -> None:
        """Put the staged rows, and delete the keys that are staged as None."""
        rows = self.rows
        gone = [key for key, value in staged.items() if value is None and key in rows]
        new = [key for key, value in staged.items() if value is not None and key not in rows]
        for key in gone:
            self.size -= len(key) + len(rows.pop(key))
        for key, value in staged.items():
            if value is not None:
                self.size += len(value) - len(rows.get(key, b""))
                rows[key] = value
        self.size += sum(map(len, new))
        self._order(gone, new)

    def reapply(self, staged: dict[bytes, bytes | None]) -> None:
        """Apply the staged rows again after an interruption at any point."""
        self.rows.update((key, value) for key, value in staged.items() if value is not None)
        for key, value in staged.items():
            if value is None:
                self.rows.pop(key, None)
        self.keys = sorted(self.rows)
        self.size = sum(len(key) + len(value) for key, value in self.rows.items())

    def _order(self, gone: list[bytes], new: list[bytes]) -> None:
        keys = self.keys
        if len(gone) <= _FEW:
            for key in gone:
                del keys[bisect_left(keys, key)]
        else:
            keys[:] = filter(self.rows.__contains__, keys)
        new.sort()
        if new and (not keys or keys[-1] < new[0]):
            keys += new
        elif len(new) <= _FEW:
            for key in new:
                insort(keys, key)
        else:
            keys += new
            keys.sort()
