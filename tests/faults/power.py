"""Images of a store after a power loss, made from a record of the writes and syncs, in their order.

`record` runs a writer with `recorder.c` loaded before its C library. Synced writes are on the disk. Of later writes,
and of the write in progress, any sectors of 512 bytes may be there, in any order.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from penstock.cache.lmdb.data_file import empty_file

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SECTOR = 512
_HEAD = struct.Struct("<cQQ")
Write = tuple[int, bytes]


def built(source: str, folder: Path) -> Path:
    """Compile a C source of this folder to a library that is loaded before the C library."""
    gcc = shutil.which("gcc")
    assert gcc, "these tests need gcc; install it"
    library = folder / f"{source}.so"
    command = [gcc, "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library, HERE / source]
    subprocess.run(command, check=True)
    return library


@dataclass(frozen=True)
class Entry:
    """An entry of the record: W is a write, D a synced write, S a sync, T a cut or extension, M a mark."""

    op: str
    at: int
    data: bytes = b""


def record(library: Path, log: Path, *program: str) -> list[Entry]:
    """Run a Python module under the recorder. Return all operations on its store."""
    env = {**os.environ, "LD_PRELOAD": str(library), "RECORD_TO": str(log), "RECORD_UNSYNCED": "1"}
    subprocess.run([sys.executable, "-m", *program], cwd=ROOT, env=env, check=True)
    return list(entries(log.read_bytes()))


def entries(raw: bytes) -> Iterator[Entry]:
    """Yield the entries of a record."""
    at = 0
    while at < len(raw):
        op, place, size = _HEAD.unpack_from(raw, at)
        at += _HEAD.size
        size = size if op in b"WD" else 0
        yield Entry(op.decode(), place, raw[at : at + size])
        at += size


class Disk:
    """A file with its synced and unsynced writes."""

    def __init__(self) -> None:
        self.synced = bytearray(empty_file())  # the file gets its name after this is on the disk
        self.pending: list[Write] = []
        self.mark = 0

    def take(self, entry: Entry) -> None:
        """Apply the next entry."""
        match entry.op:
            case "W":
                self.pending.append((entry.at, entry.data))
            case "D":
                lay(self.synced, (entry.at, entry.data))
            case "S":
                for write in self.pending:
                    lay(self.synced, write)
                self.pending.clear()
            case "T":
                assert entry.at >= len(self.synced), "a store never shrinks while it is open"
                self.synced.extend(bytes(entry.at - len(self.synced)))
            case "M":
                self.mark = entry.at

    def lost(self, flying: Entry | None, keep: Callable[[list[Write]], list[Write]]) -> bytes:
        """Return the image after a power loss.

        `flying` is the write in progress, and `keep` selects the writes that survive.
        """
        image = bytearray(self.synced)
        more = [(flying.at, flying.data)] if flying is not None and flying.op in "WD" else []
        for write in keep([*self.pending, *more]):
            lay(image, write)
        return bytes(image)


def lay(image: bytearray, write: Write) -> None:
    """Apply a write to the image."""
    at, data = write
    image.extend(bytes(max(0, at + len(data) - len(image))))
    image[at : at + len(data)] = data


def none(writes: list[Write], choose: Random) -> list[Write]:
    """No write survives."""
    return []


def every(writes: list[Write], choose: Random) -> list[Write]:
    """All writes survive."""
    return writes


def first(writes: list[Write], choose: Random) -> list[Write]:
    """The first writes survive."""
    return writes[: choose.randrange(len(writes) + 1)]


def some(writes: list[Write], choose: Random) -> list[Write]:
    """Some writes survive, in any order."""
    share = choose.random()
    return [write for write in writes if choose.random() < share]


def torn(writes: list[Write], choose: Random) -> list[Write]:
    """Some sectors of the writes survive."""
    out: list[Write] = []
    share = choose.random()
    for at, data in writes:
        while data:
            size = SECTOR - at % SECTOR
            if choose.random() < share:
                out.append((at, data[:size]))
            at, data = at + size, data[size:]
    return out


STYLES = (none, every, first, some, torn)


def images(record: list[Entry], choose: Random, many: int) -> Iterator[tuple[str, int, bytes]]:
    """Yield images of power losses spread over a record, as (style and moment, the last mark, the image)."""
    begun = next(i for i, entry in enumerate(record) if entry.op == "M")
    moments = sorted(begun + choose.randrange(len(record) - begun + 1) for _ in range(many))
    disk, done = Disk(), 0
    for n, moment in enumerate(moments):
        for entry in record[done:moment]:
            disk.take(entry)
        done = moment
        style = STYLES[n % len(STYLES)]
        flying = record[moment] if moment < len(record) else None
        image = disk.lost(flying, lambda writes, style=style: style(writes, choose))
        yield f"{style.__name__} at entry {moment}", disk.mark, image
