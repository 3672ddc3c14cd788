"""Group durability: puts return a ticket at once, and one thread commits them in groups.

A commit is due 5 ms after the first waiting record, or at 10,000 documents, and is synced like any other. A crash
costs at most records whose tickets had no result yet. Records are committed in the order in which they were put.

If one thread puts alone and waits for a ticket, nothing else would join its group. It then commits the group itself, at
once, instead of waiting for another thread to wake up. Invariants:

- a thread is alone if the group before and all waiting records are its own;
- one thread commits at a time, and it takes the records that have waited longest;
- the committing thread looks every 5 ms while others commit, so their puts need not wake it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from penstock.cache import Closed
from penstock.core import ONE, Batch
from penstock.views import Counts

DUE = 0.005
_SEVERAL = 0  # no thread has this number
_FULL = 4 * ONE  # records that may wait before a put has to wait too


class Ticket:
    """The promise of a put under durability="group".

    >>> import penstock as ps
    >>> app = ps.App("shop")
    >>> users = app.table("users", key="id")
    >>> with ps.open(app, None, durability="group") as engine:
    ...     ticket = engine.put("users", {"id": 7, "name": "Sue"})
    ...     print(ticket.result(), ticket.done())
    1 applied True
    """

    def __init__(self, check: Callable[[], object] = lambda: None, lead: Callable[[], object] = lambda: None) -> None:
        self._check = check  # raises where nobody will settle it
        self._lead = lead  # commits what waits, if nothing else can join it
        self._done = threading.Event()
        self._counts = Counts()
        self._error: BaseException | None = None
        self._left = 1  # parts not committed yet, and one more until all are known

    @classmethod
    def of(cls, counts: Counts) -> Ticket:
        """Make the ticket of a put that is durable already."""
        ticket = cls()
        ticket._counts = counts
        ticket._one_less()
        return ticket

    def done(self) -> bool:
        """Return True if the put is durable or has failed.

        engine.put("users", doc).done()
        """
        return self._done.is_set()

    def result(self, timeout: float | None = None) -> Counts:
        """Wait until the put is durable. Return its counts, or raise its error; TimeoutError after `timeout` seconds.

        engine.put("users", doc).result()
        """
        if not self._done.is_set():
            self._check()
            if timeout is None:
                self._lead()
        if not self._done.wait(timeout):
            raise TimeoutError(f"not durable after {timeout} s; wait longer, or call engine.flush()")
        if self._error is not None:
            raise self._error
        return self._counts

    def _one_less(self) -> None:
        self._left -= 1
        if not self._left:
            self._done.set()


class Committer:
    """The thread that commits groups of puts, and their queue."""

    def __init__(
        self,
        commit: Callable[[Sequence[tuple[str, Batch]]], dict[int, Counts]],
        check: Callable[[], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._commit = commit
        self._check = check
        self._clock = clock
        self._turn = threading.Lock()  # of the thread that commits
        self._wake = threading.Condition()
        self._waiting: deque[tuple[str, Batch, Ticket]] = deque()
        self._records = 0
        self._since = 0.0  # when the first of them came
        self._putter = self._last = _SEVERAL  # the thread of all waiting records, and of the last group
        self._led = False  # a thread has committed for itself since this one last looked
        self._looking = False  # this thread looks again soon, although nobody wakes it
        self._queued = self._settled = 0  # parts, ever
        self._blocked = 0  # threads that wait for room or for a flush
        self._hurry = False
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="penstock-commit", daemon=True)
        self._thread.start()

    def submit(self, table: str, parts: Iterable[Batch]) -> Ticket:
        """Queue records for the next commits; while too many wait, no more are taken from `parts`."""
        ticket = Ticket(self._check, self._lead)
        own = threading.get_ident()
        for batch in parts:
            with self._wake:
                if self._records >= _FULL and not self._closed:
                    self._block(lambda: self._records < _FULL or self._closed)
                if self._closed:
                    raise Closed("the engine")
                ticket._left += 1
                if not self._waiting:
                    self._since, self._putter = self._clock(), own
                elif self._putter != own:
                    self._putter = _SEVERAL
                self._waiting.append((table, batch, ticket))
                self._records += batch.size
                self._queued += 1
                if not (self._looking and self._is_alone(own)) or self._records >= ONE:
                    self._wake.notify_all()
        with self._wake:
            ticket._one_less()
        return ticket

    def flush(self) -> None:
        """Wait until all that was queued before this call is committed, or has failed."""
        with self._wake:
            last = self._queued
            self._hurry = True
            self._wake.notify_all()
            self._block(lambda: self._settled >= last)

    def close(self) -> None:
        """Commit what waits, and end the thread."""
        with self._wake:
            self._closed = True
            self._wake.notify_all()
        self._thread.join()
        with self._turn:
            pass  # a thread that commits for itself has ended

    def _block(self, until: Callable[[], bool]) -> None:
        self._blocked += 1
        try:
            self._wake.wait_for(until)
        finally:
            self._blocked -= 1

    def _is_alone(self, thread: int) -> bool:
        return self._putter == self._last == thread

    def _lead(self) -> None:
        """Commit all that waits, if it is of this thread and no other thread puts."""
        if not self._turn.acquire(blocking=False):
            return
        try:
            own = threading.get_ident()
            while self._settled < self._queued:
                with self._wake:
                    taken = self._take() if self._waiting and self._is_alone(own) else deque()
                    self._led = self._led or bool(taken)
                if not taken:
                    break
                self._settle(taken)
        finally:
            self._turn.release()

    def _run(self) -> None:
        while self._await():
            with self._turn:
                with self._wake:
                    taken = self._take() if self._is_due() else deque()
                if taken:
                    self._settle(taken)

    def _await(self) -> bool:
        """Wait until a commit is due. Return False once nothing waits and nothing will come."""
        with self._wake:
            while not self._is_due():
                if self._closed and not self._waiting:
                    return False
                left = self._since + DUE - self._clock() if self._waiting else DUE if self._led else None
                self._led, self._looking = False, left is not None
                self._wake.wait(left)
            self._looking = False
            return True

    def _is_due(self) -> bool:
        if not self._waiting:
            return False
        return self._records >= ONE or self._closed or self._hurry or self._clock() >= self._since + DUE

    def _take(self) -> deque[tuple[str, Batch, Ticket]]:
        taken: deque[tuple[str, Batch, Ticket]] = deque()
        records = 0
        while self._waiting and (not taken or records + self._waiting[0][1].size <= ONE):
            entry = self._waiting.popleft()
            taken.append(entry)
            records += entry[1].size
        self._records -= records
        self._hurry = self._hurry and bool(self._waiting)
        self._last = self._putter
        return taken

    def _settle(self, taken: deque[tuple[str, Batch, Ticket]]) -> None:
        """Commit a group, and settle its tickets, also if this thread is interrupted."""
        counts: dict[int, Counts] = {}
        failed: BaseException | None = None
        try:
            counts = self._commit([(table, batch) for table, batch, _ in taken])
        except BaseException as error:
            failed = error
        try:
            self._settle_tickets(taken, counts, failed)
        except BaseException as error:
            self._settle_tickets(taken, counts, failed or error)
            raise

    def _settle_tickets(
        self, taken: deque[tuple[str, Batch, Ticket]], counts: dict[int, Counts], failed: BaseException | None
    ) -> None:
        with self._wake:
            while taken:
                _, batch, ticket = taken.popleft()
                self._settled += 1
                if failed is not None:
                    ticket._error = failed
                    ticket._done.set()
                else:
                    ticket._counts += counts[id(batch)]
                    ticket._one_less()
            if self._waiting or self._blocked or self._closed:
                self._wake.notify_all()
