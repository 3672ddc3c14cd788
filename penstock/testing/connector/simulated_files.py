"""The simulated file system of one machine: the calls of `os` that transaction logs use, with faults.

The fault model

- After a kill every write is there. After a power loss each write and each cut since the file's last sync is there or
  lost, each independently of the others. A write may also be there in part, and a lost one before it leaves zeros.
- A name is durable after its folder was synced. After a power loss names have the state after some of the changes
  since then, in their order. A file without a name is lost.
- A fault strikes before and after each change and each sync. A full disk refuses writes and syncs.
- Folders always exist.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from random import Random

from penstock.cache import StoreFull
from penstock.testing.simulator.faults import AFTER, BEFORE, Points

_TORN = 0.3  # share of kept writes of which only a part is kept


@dataclass(slots=True, eq=False)
class _File:
    """A file: its bytes, the bytes at its last sync, and the changes since then. A write has bytes, a cut has none."""

    data: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    changes: list[tuple[int, bytes | None]] = field(default_factory=list)


class SimulatedFiles:
    """The files of a machine.

    >>> files = SimulatedFiles(Points(), "")
    >>> file = files.open("/logs/a", os.O_RDWR | os.O_CREAT)
    >>> files.pwrite(file, b"record", 0)
    6
    >>> files.end_process()
    >>> files.content("/logs/a"), files.durable_content("/logs/a")
    (b'record', b'')
    """

    def __init__(self, points: Points, prefix: str) -> None:
        self._points = points
        self._prefix = prefix
        self._names: dict[str, _File] = {}
        self._durable_names: dict[str, _File] = {}
        self._renames: list[tuple[str, str | None, _File]] = []  # path, the path before, file
        self._open: dict[int, _File | str] = {}  # a folder is its path
        self._numbers = count(3)

    # -- calls of `os`

    def open(self, path: str, flags: int, mode: int = 0o777, /) -> int:
        """Open a file or a folder."""
        found: _File | str | None = path if flags & os.O_DIRECTORY else self._names.get(path)
        if found is None and not flags & os.O_CREAT:
            raise FileNotFoundError(errno.ENOENT, "simulated", path)
        if found is None:
            found = _File()
            self._do("open", lambda: self._name(path, None, found))
        if isinstance(found, _File) and flags & os.O_TRUNC and found.data:
            self._do("open", lambda: self._cut(found, 0))
        number = next(self._numbers)
        self._open[number] = found
        return number

    def close(self, file: int, /) -> None:
        """Close a file."""
        self._open.pop(file, None)

    def pread(self, file: int, length: int, offset: int, /) -> bytes:
        """Return bytes of a file."""
        return bytes(self._of(file).data[offset : offset + length])

    def pwrite(self, file: int, data: bytes, offset: int, /) -> int:
        """Write bytes."""
        found = self._of(file)
        self._do("pwrite", lambda: self._write(found, offset, data))
        return len(data)

    def ftruncate(self, file: int, length: int, /) -> None:
        """Cut a file."""
        found = self._of(file)
        self._do("ftruncate", lambda: self._cut(found, length))

    def fsync(self, file: int, /) -> None:
        """Make the bytes of a file durable, or the names in a folder."""
        found = self._open.get(file)
        if isinstance(found, str):
            self._do("fsync folder", lambda: self._sync_names(found))
        else:
            self.fdatasync(file)

    def fdatasync(self, file: int, /) -> None:
        """Make the bytes of a file durable."""
        found = self._of(file)
        self._do("fsync", lambda: _sync(found))

    def replace(self, path: str, other: str, /) -> None:
        """Give a file another name."""
        found = self._names.get(path)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "simulated", path)
        self._do("replace", lambda: self._name(other, path, found))

    def listdir(self, path: str, /) -> list[str]:
        """Return the names in a folder."""
        return [os.path.basename(name) for name in self._names if os.path.dirname(name) == path]

    def makedirs(self, path: str, mode: int, exist_ok: bool, /) -> None:
        """Do nothing: folders exist."""

    # -- faults

    def end_process(self) -> None:
        """End the process. Its files keep every write, synced or not."""
        self._open.clear()

    def lose_power(self, choose: Random) -> None:
        """End the process and cut the power."""
        self.end_process()
        names = dict(self._durable_names)
        for path, before, file in self._renames[: choose.randint(0, len(self._renames))]:
            names.pop(before or "", None)
            names[path] = file
        for file in {id(file): file for file in names.values()}.values():
            _lose(file, choose)
        self._names, self._durable_names = names, dict(names)
        self._renames.clear()

    # -- for checks

    def content(self, path: str) -> bytes:
        """Return the bytes of a file, and none without the file."""
        return bytes(self._names[path].data) if path in self._names else b""

    def durable_content(self, path: str) -> bytes:
        """Return the bytes that surely survive a power loss."""
        return self._durable_names[path].durable if path in self._durable_names else b""

    def paths(self) -> list[str]:
        """Return the paths of all files."""
        return sorted(self._names)

    # -- changes

    def _do(self, call: str, change: Callable[[], None]) -> None:
        """Make a change, with a place before it and one after it."""
        try:
            self._points.reach(f"{self._prefix}{call} {BEFORE}", may_fail=True)
        except StoreFull as full:
            raise OSError(errno.ENOSPC, str(full)) from None
        change()
        self._points.reach(f"{self._prefix}{call} {AFTER}")

    def _of(self, number: int) -> _File:
        found = self._open.get(number)
        if not isinstance(found, _File):
            raise OSError(errno.EBADF, "simulated: the file is not open")
        return found

    def _name(self, path: str, before: str | None, file: _File) -> None:
        if before is not None:
            del self._names[before]
        self._names[path] = file
        self._renames.append((path, before, file))

    def _sync_names(self, folder: str) -> None:
        here = [change for change in self._renames if os.path.dirname(change[0]) == folder]
        for path, before, file in here:
            self._durable_names.pop(before or "", None)
            self._durable_names[path] = file
        self._renames = [change for change in self._renames if change not in here]

    def _write(self, file: _File, offset: int, data: bytes) -> None:
        file.changes.append((offset, bytes(data)))
        _put(file.data, offset, data)

    def _cut(self, file: _File, length: int) -> None:
        file.changes.append((length, None))
        del file.data[length:]


def _put(data: bytearray, offset: int, piece: bytes) -> None:
    data.extend(bytes(max(0, offset - len(data))))
    data[offset : offset + len(piece)] = piece


def _sync(file: _File) -> None:
    file.durable = bytes(file.data)
    file.changes.clear()


def _lose(file: _File, choose: Random) -> None:
    """Keep some of the changes since the last sync."""
    data = bytearray(file.durable)
    for at, piece in file.changes:
        if choose.random() < 0.5:
            continue
        if piece is None:
            del data[at:]
        else:
            _put(data, at, piece[: choose.randrange(len(piece))] if choose.random() < _TORN else piece)
    file.data, file.durable = data, bytes(data)
    file.changes.clear()
