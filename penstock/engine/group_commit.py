"""Group durability: puts return a ticket at once, and one thread commits them in groups.

A commit is due 5 ms after the first waiting record, or at 10,000 documents, and is synced like any other. A crash
costs at most records whose tickets had no result yet. Records are committed in the order in which they were put.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence

from penstock.cache import Closed
from penstock.core import ONE, Batch
from penstock.views import Counts

DUE = 0.005
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

    def __init__(self, check: Callable[[], object] = lambda: None) -> None:
        self._check = check  # raises where nobody will settle it
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
    """The thread that commits groups of puts, and its queue."""

    def __init__(
        self, commit: Callable[[Sequence[tuple[str, Batch]]], dict[int, Counts]], check: Callable[[], object]
    ) -> None:
        self._commit = commit
        self._check = check
        self._wake = threading.Condition()
        self._waiting: list[tuple[str, Batch, Ticket]] = []
        self._records = 0
        self._queued = self._settled = 0  # parts, ever
        self._hurry = False
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="penstock-commit", daemon=True)
        self._thread.start()

    def submit(self, table: str, parts: Iterable[Batch]) -> Ticket:
        """Queue records for the next commits; while too many wait, no more are taken from `parts`."""
        ticket = Ticket(self._check)
        for batch in parts:
            with self._wake:
                self._wake.wait_for(lambda: self._records < _FULL or self._closed)
                if self._closed:
                    raise Closed("the engine")
                ticket._left += 1
                self._waiting.append((table, batch, ticket))
                self._records += batch.size
                self._queued += 1
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
            self._wake.wait_for(lambda: self._settled >= last)

    def close(self) -> None:
        """Commit what waits, and end the thread."""
        with self._wake:
            self._closed = True
            self._wake.notify_all()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._waiting or self._closed)
                if not self._waiting:
                    return
                self._wake.wait_for(lambda: self._records >= ONE or self._closed or self._hurry, DUE)
                taken = self._take()
                self._wake.notify_all()
            self._settle(taken)

    def _take(self) -> list[tuple[str, Batch, Ticket]]:
        taken: list[tuple[str, Batch, Ticket]] = []
        records = 0
        while self._waiting and (not taken or records + self._waiting[0][1].size <= ONE):
            entry = self._waiting.pop(0)
            taken.append(entry)
            records += entry[1].size
        self._records -= records
        self._hurry = self._hurry and bool(self._waiting)
        return taken

    def _settle(self, taken: list[tuple[str, Batch, Ticket]]) -> None:
        counts: dict[int, Counts] = {}
        failed: BaseException | None = None
        try:
            counts = self._commit([(table, batch) for table, batch, _ in taken])
        except BaseException as error:
            failed = error
        with self._wake:
            for _, batch, ticket in taken:
                if failed is not None:
                    ticket._error = failed
                    ticket._done.set()
                else:
                    ticket._counts += counts[id(batch)]
                    ticket._one_less()
            self._settled += len(taken)
            self._wake.notify_all()
