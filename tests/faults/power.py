"""What a power loss leaves of a store: images made of what was written and synced, in the order in which it was.

`record` runs a writer with `recorder.c` loaded before its C library. What was synced is on the disk; of what was
written since, and of the write that is under way, any part may be, by sectors of 512 bytes, in any order.
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
    """A library of this folder, to be loaded before the C library."""
    gcc = shutil.which("gcc")
    assert gcc, "these tests need gcc; install it"
    library = folder / f"{source}.so"
    command = [gcc, "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library, HERE / source]
    subprocess.run(command, check=True)
    return library


@dataclass(frozen=True)
class Entry:
    """What the recorder says: W written, D written and synced, S synced, T cut or extended, M a mark."""

    op: str
    at: int
    data: bytes = b""


def record(library: Path, log: Path, *program: str) -> list[Entry]:
    """Run a module of Python's under the recorder; all that it did to its store."""
    env = {**os.environ, "LD_PRELOAD": str(library), "RECORD_TO": str(log), "RECORD_UNSYNCED": "1"}
    subprocess.run([sys.executable, "-m", *program], cwd=ROOT, env=env, check=True)
    return list(entries(log.read_bytes()))


def entries(raw: bytes) -> Iterator[Entry]:
    """What is in a record."""
    at = 0
    while at < len(raw):
        op, place, size = _HEAD.unpack_from(raw, at)
        at += _HEAD.size
        size = size if op in b"WD" else 0
        yield Entry(op.decode(), place, raw[at : at + size])
        at += size


class Disk:
    """A file whose writes are synced or not yet."""

    def __init__(self) -> None:
        self.synced = bytearray(empty_file())  # it gets its name with this on the disk
        self.pending: list[Write] = []
        self.mark = 0

    def take(self, entry: Entry) -> None:
        """What happened next."""
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
        """The image that is left; `flying` is what is under way, and `keep` says what comes through."""
        image = bytearray(self.synced)
        more = [(flying.at, flying.data)] if flying is not None and flying.op in "WD" else []
        for write in keep([*self.pending, *more]):
            lay(image, write)
        return bytes(image)


def lay(image: bytearray, write: Write) -> None:
    """A write as it lies in the file."""
    at, data = write
    image.extend(bytes(max(0, at + len(data) - len(image))))
    image[at : at + len(data)] = data


def none(writes: list[Write], choose: Random) -> list[Write]:
    """Nothing comes through."""
    return []


def every(writes: list[Write], choose: Random) -> list[Write]:
    """All of it does."""
    return writes


def first(writes: list[Write], choose: Random) -> list[Write]:
    """What was written first does."""
    return writes[: choose.randrange(len(writes) + 1)]


def some(writes: list[Write], choose: Random) -> list[Write]:
    """Some writes do, whatever their order."""
    share = choose.random()
    return [write for write in writes if choose.random() < share]


def torn(writes: list[Write], choose: Random) -> list[Write]:
    """Some sectors of writes do."""
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
    """Images of power lost at moments spread over a record, as (where and how, the last mark, the image)."""
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
