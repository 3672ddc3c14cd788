"""The process that decodes lines to columns for a writer, until its pipe ends.

Lines and replies are in two anonymous files in memory, one for each batch in progress. The pipes carry one frame per
batch and direction, short enough for a single write. Invariants:

- a reply is complete in its file before its frame is sent;
- frames answer requests in order;
- if a batch cannot be answered, it is declined. The writer decodes it itself and reports any error;
- nothing remains if either side dies. The files end with their last reader. The process ends with its pipe, or when it
  sees another parent, since a fork of the writer may hold the pipe open.
"""

from __future__ import annotations

import gc
import os
import select
import struct
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from penstock.mapreduce.decode.column_transfer import Sender, plan_from

REQUEST = struct.Struct("<QQQQ")  # index of the file, number of lines, their bytes, the era of the groups
ANSWER = struct.Struct("<QQ")  # an Answer, the bytes of the reply
_LOOK_UP = 1000  # milliseconds between two checks of the parent


class Answer(IntEnum):
    """The kinds of a worker's frames."""

    READY = 0
    DONE = 1
    DECLINED = 2


def serve(parent: int, *files: int) -> None:
    """Answer the requests from stdin. The first file contains the plan."""
    sender = Sender(*plan_from(os.pread(files[0], os.fstat(files[0]).st_size, 0)))
    gc.disable()  # a batch creates no cycles
    waiting = select.poll()
    waiting.register(0, select.POLLIN)
    try:
        os.write(1, ANSWER.pack(Answer.READY, 0))
        while True:
            while not waiting.poll(_LOOK_UP):
                if os.getppid() != parent:
                    return
            frame = os.read(0, REQUEST.size)
            if len(frame) < REQUEST.size:
                return
            which, n, size, era = REQUEST.unpack(frame)
            os.write(1, _answer(sender, files[which], n, size, era))
    except BrokenPipeError:
        return


def _answer(sender: Sender, file: int, n: int, size: int, era: int) -> bytes:
    try:
        reply = sender.reply(read_lines(file, n, size), era)
    except Exception:
        return ANSWER.pack(Answer.DECLINED, 0)
    write_all(file, reply)
    return ANSWER.pack(Answer.DONE, len(reply))


@dataclass(frozen=True, slots=True)
class JoinedLines:
    """Lines with their concatenation, and the offset of each line's end, preceded by 0."""

    lines: list[bytes]
    ends: NDArray[np.int64]
    joined: bytes

    @classmethod
    def of(cls, lines: list[bytes], most: int | None = None) -> JoinedLines | None:
        """Join lines. Return None if they take more bytes than `most`."""
        ends = np.zeros(len(lines) + 1, np.int64)
        np.fromiter(map(len, lines), np.int64, len(lines)).cumsum(out=ends[1:])
        return None if most is not None and ends[-1] > most else cls(lines, ends, b"".join(lines))

    def begin_with(self, byte: int) -> bool:
        """Return True if all lines begin with this byte and none is empty."""
        starts = self.ends[:-1]
        if not self.lines or (starts == self.ends[1:]).any():
            return False
        return bool((np.frombuffer(self.joined, np.uint8)[starts] == byte).all())


def write_lines(file: int, laid: JoinedLines) -> int:
    """Write lines into a file. Return the number of bytes written."""
    write_all(file, laid.ends.tobytes())
    write_all(file, laid.joined, laid.ends.nbytes)
    return int(laid.ends.nbytes + laid.ends[-1])


def read_lines(file: int, n: int, size: int) -> list[bytes]:
    """Read the lines in a file."""
    head = 8 * (n + 1)
    ends: list[int] = np.frombuffer(os.pread(file, head, 0), np.int64).tolist()
    data = os.pread(file, size - head, head)
    return [data[a:b] for a, b in pairwise(ends)]


def write_all(file: int, data: bytes, at: int = 0) -> None:
    """Write all data at this offset."""
    rest = memoryview(data)
    while rest:
        done = os.pwrite(file, rest, at)
        rest, at = rest[done:], at + done
