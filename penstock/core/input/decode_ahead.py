"""Decode ahead: a helper process on another core decodes the next batches while this one commits.

A call with long input starts and ends the helper. Input that is complete is read two batches ahead. An iterator is read
one batch ahead, and only after a batch that came quickly, because meanwhile a complete batch waits for its commit. It
counts as long once enough of it has arrived. Invariants:

- results are the same as without the helper: batches keep their order, and a batch that the helper has not decoded is
  decoded here;
- nothing waits for the helper to start; it has at most two batches at a time;
- lines that came with columns of values are not handed over;
- a slow iterator is not read ahead: its batches are committed as they fill;
- an error of the input is raised after the commit of all batches before it;
- the process ends before the call does.
"""

from __future__ import annotations

import io
import os
import select
import stat
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from penstock.core.input.batches import Batch
from penstock.gateway import TableNode
from penstock.mapreduce import (
    ANSWER,
    REQUEST,
    Answer,
    DecodedColumns,
    FieldPlan,
    JoinedLines,
    Receiver,
    Spaces,
    plan_data,
    write_lines,
)
from penstock.views import Merge

LONG = 100_000  # lines from which a helper is worth its start
WORTH = 1000  # lines from which a batch is worth handing over
QUICK = 1e-6  # seconds per line for a quick iterator: less than its commit takes
_LINE = 100  # approximate bytes of a line, to guess the lines of a file
_UNDER_WAY = 2
_PATIENCE = 60_000  # milliseconds for one batch, which takes a fraction of a second
_BEGIN = (
    "import sys; own = sys.argv[1:]; sys.path[:] = own[3:]; "
    "from penstock.mapreduce import serve; serve(*map(int, own[:3]))"
)


@contextmanager
def helped(
    batches: Iterator[Batch], docs: Any, node: TableNode, clock: Callable[[], float] = time.perf_counter
) -> Iterator[Iterator[Batch]]:
    """Yield the batches of a call; a helper decodes them if the input is long and another core is available."""
    long = _is_long(docs, LONG)
    fit = not node.plan.functions and node.table.merge is Merge.REPLACE
    if long is False or not fit or len(os.sched_getaffinity(0)) < 2:
        yield batches
        return
    with ExitStack() as stack:

        def start() -> Helper | None:
            helper = Helper.start(node.plan, node.seed)
            if helper is not None:
                stack.callback(helper.close)
            return helper

        yield _ahead(_Pace(batches, clock), start, whole=bool(long))


def _is_long(docs: Any, least: int) -> bool | None:
    """Return True if the input has so many lines or is a True flag; None if its length is unknown."""
    if isinstance(docs, bool):
        return docs
    if isinstance(docs, bytes | bytearray):
        return docs.count(b"\n") >= least
    if isinstance(docs, str):
        return docs.count("\n") >= least
    if isinstance(docs, io.IOBase):
        try:
            found = os.fstat(docs.fileno())
        except OSError:
            return None
        return (stat.S_ISREG(found.st_mode) and found.st_size >= least * _LINE) or None
    return len(docs) >= least if isinstance(docs, Sequence) else None


class _Pace:
    """Batches, and the speed at which they arrive."""

    def __init__(self, batches: Iterator[Batch], clock: Callable[[], float]) -> None:
        self._batches = batches
        self._clock = clock
        self.lines = 0
        self.quick = False

    def next(self) -> Batch:
        """Return the next batch, or raise StopIteration or the input's error."""
        began = self._clock()
        batch = next(self._batches)
        n = len(batch.records.lines)
        self.quick = n >= WORTH and self._clock() - began <= n * QUICK
        self.lines += n
        return batch


def _ahead(source: _Pace, start: Callable[[], Helper | None], whole: bool) -> Iterator[Batch]:
    """Yield the batches in order, and hand the following ones to the helper."""
    coming: deque[tuple[Batch, DecodeTask | None]] = deque()
    helper: Helper | None = None
    started = False
    failed: Exception | None = None
    more = True
    while True:
        while more:
            reach = 0
            if not started or (helper is not None and helper.ready()):
                reach = _UNDER_WAY if whole else int(source.quick)
            if len(coming) > reach:
                break
            try:
                batch = source.next()
            except StopIteration:
                more = False
                break
            except Exception as error:
                failed, more = error, False
                break
            lines = batch.records.lines
            handed = None
            encoded = batch.records.fields is None
            if whole and encoded and not started:
                helper, started = start(), True
            if helper is not None and coming and encoded and len(lines) >= WORTH:
                handed = helper.hand(lines, batch.laid)
            batch.laid = None
            batch.records.decoded = None if handed is None else handed.columns
            coming.append((batch, handed))
            if not started and encoded and source.quick and source.lines >= LONG:
                helper, started = start(), True
        if not coming:
            break
        batch, handed = coming.popleft()
        if handed is not None:
            handed.take()
        yield batch
    if failed is not None:
        raise failed


class Helper:
    """The helper process, as the writer sees it."""

    def __init__(self, plan: FieldPlan, process: subprocess.Popen[bytes], files: list[int]) -> None:
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
        self._handed: deque[DecodeTask] = deque()

    @classmethod
    def start(cls, plan: FieldPlan, seed: int) -> Helper | None:
        """Start a helper process. Return None if that is impossible."""
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
        """Return True if the helper can take batches. Never wait for it."""
        if not self._up and not self._dead and self._has_answer(0):
            self._up = self._answer()[0] == Answer.READY
        return self._up and not self._dead

    def wait(self) -> bool:
        """Wait until the helper can take batches. Return False if it never will."""
        return self._has_answer(_PATIENCE) and self.ready()

    def hand(self, lines: list[bytes], laid: JoinedLines | None = None) -> DecodeTask | None:
        """Hand a batch to the helper. Return None if it can't take one.

        If the helper is full, wait for its oldest batch first. `laid` has the lines in one piece, if they are available
        so.
        """
        if laid is None or laid.lines is not lines:
            laid = JoinedLines.of(lines)
            assert laid is not None, "there is no bound"
        if self._handed and not self._free:
            self._handed[0].take()
        if not self.ready():
            return None
        file = self._free.popleft()
        try:
            size = write_lines(file, laid)
            os.write(self._requests, REQUEST.pack(self._files.index(file), len(lines), size, self._receiver.era))
        except OSError:
            self._dead = True
            return None
        self._handed.append(DecodeTask(self, file))
        return self._handed[-1]

    def reply(self, file: int) -> bytes | None:
        """Read the next reply from this file; None if the helper decoded nothing."""
        self._handed.popleft()
        if self._dead or not self._has_answer(_PATIENCE):
            self._dead = True
            return None
        answer, size = self._answer()
        self._free.append(file)
        return os.pread(file, size, 0) if answer == Answer.DONE else None

    def columns(self, reply: bytes, spaces: Spaces) -> DecodedColumns | None:
        """Decode the columns of a reply, if it can still be read."""
        return self._receiver.columns(reply, spaces)

    def close(self) -> None:
        """Kill the process, which has no data that is not here as well."""
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


class DecodeTask:
    """A batch that the helper decodes; batches are taken back in the order in which they were handed over."""

    __slots__ = ("_file", "_helper", "_reply", "_taken")

    def __init__(self, helper: Helper, file: int) -> None:
        self._helper = helper
        self._file = file
        self._reply: bytes | None = None
        self._taken = False

    def take(self) -> None:
        """Wait until the batch is decoded."""
        if not self._taken:
            self._taken = True
            self._reply = self._helper.reply(self._file)

    def columns(self, spaces: Spaces) -> DecodedColumns | None:
        """Return its columns once, with the codes of these dictionaries; None if they must be decoded here."""
        reply, self._reply = self._reply, None
        return None if reply is None else self._helper.columns(reply, spaces)


def _paths() -> Iterable[str]:
    """Return the import paths, and last the path of this package, in case an import hook finds it."""
    own = os.path.abspath(__file__)
    for _ in __name__.split("."):
        own = os.path.dirname(own)
    return [*(path for path in sys.path if isinstance(path, str)), own]
