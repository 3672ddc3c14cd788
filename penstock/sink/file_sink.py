"""Write changes to a file, one JSON object per line, and continue after the last complete position.

    {"view": "namecount", "group": "Joe", "value": 2, "position": 7}                     the latest value of a group
    {"view": "namecount", "group": "Joe", "value": null, "deleted": true, "position": 8} the group is gone
    {"view": "namecount", "envelope": "value", "position":                    8}         a mark: all up to 8 is above

With envelope=change the first two lines contain the whole change, with `old` and `new`. An absent side is left out.
With several partitions a position is a list of numbers. Invariants:

- lines after the last mark come from a writer that was killed. The next `begin` cuts them off, and they are written
  again. A file without a mark may lack some of the initial rows, so it is emptied and starts again;
- lines before a mark are on the disk before the mark;
- a file has one writer at a time. Data that does not belong to this view is never cut or overwritten.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Callable, Sequence

from penstock.cache import key_text
from penstock.sink.change_lines import ENVELOPES, change_line
from penstock.sink.errors import SinkBusy, SinkTaken
from penstock.sink.position_order import width_of
from penstock.sink.protocol import Claiming, nobody
from penstock.views import Change, Position, position_text

STDOUT = "-"
_BLOCK = 1 << 20
_WIDTH = 20  # characters of a number in a mark, so that one mark can overwrite another
_MOST = 256  # the most numbers of a position
_SAYS = {
    True: "the latest value of a group is seen once for each commit: a killed writer's last lines are written again",
    False: "what can't be read back begins with all rows whenever it is opened",
}


def open_file(path: str, view: str, envelope: str, dumps: Callable[[object], str]) -> FileSink:
    """Open the sink of a file, or of standard output for "-". `dumps` converts a value to one line of JSON."""
    if path == STDOUT:
        return FileSink(os.dup(1), "standard output", view, envelope, dumps)
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except ValueError:  # a character that file names can't contain
        raise SinkTaken(key_text(path), "no file can have this name", "name another file") from None
    return FileSink(file, path, view, envelope, dumps)


class FileSink:
    """A sink that writes to an open file."""

    def __init__(self, file: int, name: str, view: str, envelope: str, dumps: Callable[[object], str]) -> None:
        assert envelope in ENVELOPES, "there is no third"
        self._file = file
        self._name = name
        self._view = view
        self._envelope = envelope
        self._dumps = dumps
        self._regular = stat.S_ISREG(os.fstat(file).st_mode) and name != "standard output"
        self._end = 0  # the offset of the next line
        self._marked: tuple[Position, int] | None = None  # position and offset of a mark that is the last line
        self.claim: Claiming = nobody
        self.contract = _SAYS[self._regular]

    def begin(self) -> Position | None:
        """Lock the file, cut off incomplete data, and return the position of the last mark."""
        if not self._regular:
            return None
        about = os.fstat(self._file)
        other = self.claim(f"file {about.st_dev} {about.st_ino}")
        if other is not None:
            raise SinkBusy(self._name, other)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SinkTaken(self._name, "another process writes it") from None
        self._recognize()
        found = self._last_mark()
        if found is None:
            os.ftruncate(self._file, 0)
            return None
        envelope, position, place, self._end = found
        if envelope != self._envelope:
            raise SinkTaken(self._name, f"its lines are of envelope={envelope} and not of envelope={self._envelope}")
        os.ftruncate(self._file, self._end)
        self._marked = position, place
        return position

    def write(self, changes: Sequence[Change]) -> None:
        """Write one line per change."""
        if changes:
            self._append(
                "".join(self._dumps(change_line(change, self._envelope)) + "\n" for change in changes).encode()
            )
            self._marked = None

    def holds(self, position: Position) -> None:
        """Write a mark after the changes, or overwrite the mark if it is the last line."""
        if not self._regular or (self._marked is not None and self._marked[0] == position):
            return
        text = position_text(position).rjust(_WIDTH * max(1, width_of(position)))
        mark = f'{self._start()}"{self._envelope}", "position": {text}}}\n'.encode()
        if self._marked is not None:
            self._end = self._marked[1]
        elif self._end:
            os.fdatasync(self._file)
        self._marked = position, self._end
        self._append(mark)

    def close(self) -> None:
        """Close the file, which unlocks it."""
        os.close(self._file)

    def _start(self) -> str:
        """Return the text that begins a mark."""
        return f'{{"view": {self._dumps(self._view)}, "envelope": '

    def _append(self, data: bytes) -> None:
        left = memoryview(data)
        try:
            while left:
                n = os.pwrite(self._file, left, self._end) if self._regular else os.write(self._file, left)
                self._end += n
                left = left[n:]
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OSError(error.errno, error.strerror, self._name) from None

    def _recognize(self) -> None:
        """Raise SinkTaken unless the file is empty or begins with a line of this view."""
        start = f'{{"view": {self._dumps(self._view)}, "'.encode()
        found = os.pread(self._file, len(start), 0)
        if not start.startswith(found):
            raise SinkTaken(self._name, f"it holds something else than changes of view {self._view!r}")

    def _last_mark(self) -> tuple[str, Position, int, int] | None:
        """Return the envelope, the position, the start and the end of the last complete mark."""
        start = re.escape(self._start().encode())
        mark = re.compile(rb'(?<![^\n])%s"(\w+)", "position": +(\d+|\[\d+(?:, \d+)*\])\}\n' % start)
        longest = len(self._start()) * 4 + 3 * _WIDTH + _WIDTH * _MOST
        stop = os.fstat(self._file).st_size
        while stop > 0:
            first = max(0, stop - _BLOCK)
            before = min(first, 1)  # the byte that ends the line before
            block = os.pread(self._file, stop - first + before + longest, first - before)
            for found in reversed(list(mark.finditer(block))):
                if found.start() or not before:
                    place, numbers = first - before, tuple(map(int, found[2].strip(b"[]").split(b", ")))
                    position = numbers if found[2].startswith(b"[") else numbers[0]
                    return found[1].decode(), position, place + found.start(), place + found.end()
            stop = first
        return None
