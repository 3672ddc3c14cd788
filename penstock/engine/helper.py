"""Decoding beside the writer: a process on another core decodes the batches to come while this one commits.

A call with long input starts it and ends it. Invariants:

- what is committed, counted and rejected is what it would be without: batches come in their order, and one that the
  helper has not decoded, for whatever reason, is decoded here;
- nothing waits for the helper to start; at most two batches are under way at it;
- an error of the input is raised when all batches before it are committed;
- when the call ends, the process has ended too.
"""

from __future__ import annotations

import io
import os
import select
import stat
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from penstock.engine.documents import Batch
from penstock.gateway import TableNode
from penstock.mapreduce import ANSWER, REQUEST, Answer, Columns, Plan, Receiver, Spaces, plan_data, write_lines
from penstock.views import Merge

LONG = 100_000  # lines from which a helper is worth its start
WORTH = 1000  # lines of a batch from which handing it over is worth the way
_LINE = 100  # bytes of a line, about, to guess how many a file has
_UNDER_WAY = 2
_PATIENCE = 60_000  # milliseconds for one batch, which takes a fraction of a second
_BEGIN = (
    "import sys; own = sys.argv[1:]; sys.path[:] = own[3:]; "
    "from penstock.mapreduce import serve; serve(*map(int, own[:3]))"
)


@contextmanager
def helped(batches: Iterator[Batch], docs: Any, node: TableNode) -> Iterator[Iterator[Batch]]:
    """The batches of a call, decoded by a helper where the input is long and another core is there."""
    helper = None
    if node.plan.functions or node.table.merge is not Merge.REPLACE or not _is_long(docs, LONG):
        yield batches
        return
    if len(os.sched_getaffinity(0)) > 1:
        helper = Helper.start(node.plan, node.seed)
    if helper is None:
        yield batches
        return
    try:
        yield _ahead(batches, helper)
    finally:
        helper.close()


def _is_long(docs: Any, least: int) -> bool:
    """Whether input that lies there whole has so many lines; what is still being made is never read ahead."""
    if isinstance(docs, bytes | bytearray):
        return docs.count(b"\n") >= least
    if isinstance(docs, str):
        return docs.count("\n") >= least
    if isinstance(docs, io.IOBase):
        try:
            found = os.fstat(docs.fileno())
        except OSError:
            return False
        return stat.S_ISREG(found.st_mode) and found.st_size >= least * _LINE
    return isinstance(docs, Sequence) and len(docs) >= least


def _ahead(batches: Iterator[Batch], helper: Helper) -> Iterator[Batch]:
    """The batches in their order, those to come handed to the helper."""
    coming: deque[tuple[Batch, Handed | None]] = deque()
    failed: Exception | None = None
    more = True
    while True:
        if coming and coming[0][1] is not None:
            coming[0][1].take()
        while more and len(coming) <= (_UNDER_WAY if helper.ready() else 0):
            try:
                batch = next(batches)
            except StopIteration:
                more = False
            except Exception as error:
                failed, more = error, False
            else:
                lines = batch.records.lines
                handed = helper.hand(lines) if coming and len(lines) >= WORTH else None
                batch.records.decoded = None if handed is None else handed.columns
                coming.append((batch, handed))
        if not coming:
            break
        yield coming.popleft()[0]
    if failed is not None:
        raise failed


class Helper:
    """The process, as the writer sees it."""

    def __init__(self, plan: Plan, process: subprocess.Popen[bytes], files: list[int]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.pid = process.pid
        self._process = process
        self._requests = process.stdin.fileno()
        self._answers = process.stdout.fileno()
        self._receiver = Receiver(plan)
        self._files = files
        self._up = self._dead = False
        self._free = deque(files)

    @classmethod
    def start(cls, plan: Plan, seed: int) -> Helper | None:
        """Begin to start one; None where that can't be done."""
        if not sys.executable or getattr(sys, "frozen", False):
            return None
        files: list[int] = []
        try:
            files += [os.memfd_create("penstock") for _ in range(_UNDER_WAY)]
            data = plan_data(plan, seed)
            os.pwrite(files[0], data, 0)
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _BEGIN, str(os.getpid()), *map(str, files), *_paths()],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=files,
                process_group=0,  # an interrupt from the keyboard is for the writer
            )
        except OSError:
            for file in files:
                os.close(file)
            return None
        return cls(plan, process, files)

    def ready(self) -> bool:
        """Whether it can be handed batches; it is never waited for."""
        if not self._up and not self._dead and self._has_answer(0):
            self._up = self._answer()[0] == Answer.READY
        return self._up and not self._dead

    def wait(self) -> bool:
        """Wait until it can be handed batches; False where it never will."""
        return self._has_answer(_PATIENCE) and self.ready()

    def hand(self, lines: list[bytes]) -> Handed | None:
        """Hand it a batch; None where it can't take one."""
        if not self.ready():
            return None
        file = self._free.popleft()
        try:
            size = write_lines(file, lines)
            os.write(self._requests, REQUEST.pack(self._files.index(file), len(lines), size, self._receiver.era))
        except OSError:
            self._dead = True
            return None
        return Handed(self, file)

    def reply(self, file: int) -> bytes | None:
        """The next reply, which lies in this file; None where it decoded nothing."""
        if self._dead or not self._has_answer(_PATIENCE):
            self._dead = True
            return None
        answer, size = self._answer()
        self._free.append(file)
        return os.pread(file, size, 0) if answer == Answer.DONE else None

    def columns(self, reply: bytes, spaces: Spaces) -> Columns | None:
        """The columns in a reply, if it can still be read."""
        return self._receiver.columns(reply, spaces)

    def close(self) -> None:
        """End the process; there is nothing in it that is not here as well."""
        self._dead = True
        with self._process:
            self._process.kill()
        for file in self._files:
            os.close(file)

    def _has_answer(self, patience: int) -> bool:
        waiting = select.poll()
        waiting.register(self._answers, select.POLLIN)
        return bool(waiting.poll(patience))

    def _answer(self) -> tuple[int, int]:
        frame = os.read(self._answers, ANSWER.size)
        if len(frame) < ANSWER.size:
            self._dead = True
            return Answer.DECLINED, 0
        answer, size = ANSWER.unpack(frame)
        return answer, size


class Handed:
    """A batch that the helper decodes; batches are taken back in the order in which they were handed over."""

    __slots__ = ("_file", "_helper", "_reply")

    def __init__(self, helper: Helper, file: int) -> None:
        self._helper = helper
        self._file = file
        self._reply: bytes | None = None

    def take(self) -> None:
        """Wait until it is decoded."""
        self._reply = self._helper.reply(self._file)

    def columns(self, spaces: Spaces) -> Columns | None:
        """Its columns, once, with the codes of these dictionaries; None where they must be made here."""
        reply, self._reply = self._reply, None
        return None if reply is None else self._helper.columns(reply, spaces)


def _paths() -> Iterable[str]:
    """Where modules are found, and last of all where this package is, in case a hook finds it."""
    own = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return [*(path for path in sys.path if isinstance(path, str)), own]
