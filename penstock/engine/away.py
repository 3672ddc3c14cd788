"""A partition in a process of its own, looked after: it is begun again when it ends or falls silent.

Whoever is to be followed is killed first and its end awaited, so that there are never two owners of a partition; the
next one begins a new epoch. Invariant: a call returns what is committed there, or raises; one that was cut off is made
once more with the next owner, where records that are in already change nothing.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from penstock.cache import Closed, PenstockError, unpack
from penstock.engine import partition
from penstock.engine.catalog import Resume
from penstock.engine.courier import PATIENCE
from penstock.engine.handed import batch_data, counts_of_data, error_of
from penstock.engine.member import Standing, Tables
from penstock.engine.order import Order, write_order
from penstock.engine.there import There
from penstock.engine.wire import Gone
from penstock.engine.writing import HolderLost, HolderSilent
from penstock.views import Counts

_TRIES = 5  # owners in a row that end at the same work before it is given up
_log = logging.getLogger("penstock.engine")


class Away:
    """One partition, by its process."""

    def __init__(self, order: Order) -> None:
        self.here = order.here
        self.folder = order.folders[order.here]
        self._order = order
        self._turn = threading.RLock()
        self._process: subprocess.Popen[bytes] | None = None
        self._there: There | None = None
        self.closed = False
        self.begun = 0  # how many processes it has had

    @property
    def name(self) -> str:
        """What people call it."""
        return f"partition {self.here}"

    @property
    def pid(self) -> int | None:
        """Its process, while there is one."""
        return None if self._process is None else self._process.pid

    # -- its process

    def begin(self) -> None:
        """Begin its process; `ready` waits for it."""
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"import sys; from {partition.__name__} import main; sys.exit(main())"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # a Ctrl-C is for the process that opened the store, which then ends this one
        )
        self.begun += 1
        assert self._process.stdin is not None, "it was asked for"
        with suppress(BrokenPipeError):  # what it says tells why
            write_order(self._process.stdin, self._order)

    def ready(self) -> None:
        """Wait until its store is open; raises why it isn't."""
        process = self._process
        assert process is not None, "it was begun"
        assert process.stdout is not None, "it was asked for"
        head = process.stdout.read(4)
        said = unpack(process.stdout.read(int.from_bytes(head, "big"))) if len(head) == 4 else {}
        if "failed" in said:
            self._end(0)
            raise error_of(said["failed"], self.name)
        if "ready" not in said:
            self._end(0)
            raise PenstockError(f"the process of {self.name} ended before its store was open; its output may say why")
        self._there = There.reach(self.folder, f"process {process.pid}, {self.name}", PATIENCE)

    def look(self) -> None:
        """See whether it works; one that doesn't is followed by another."""
        with self._turn:
            if self.closed or self._process is None:
                return
            try:
                if self._process.poll() is None:
                    self._ask("alive")
                    return
            except (HolderLost, HolderSilent):
                pass
            try:
                self.follow()
            except PenstockError as error:
                _log.error("%s can't be opened: %s", self.name, error)

    def follow(self) -> None:
        """Kill the owner, await its end, and begin the next one."""
        with self._turn:
            process = self._process
            _log.warning(
                "%s: process %s %s; another one takes its place",
                self.name,
                None if process is None else process.pid,
                "is silent" if process is not None and process.poll() is None else "has ended",
            )
            self._end(0)
            self.begin()
            self.ready()

    def _end(self, patience: float) -> None:
        """End its process: by the end of its input, or, after so many seconds, by force."""
        if self._there is not None:
            self._there.close()
            self._there = None
        process, self._process = self._process, None
        if process is None:
            return
        if not patience:
            process.kill()
        assert process.stdin is not None, "it was asked for"
        assert process.stdout is not None, "it was asked for"
        with suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(patience or None)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

    # -- its work

    def take(
        self,
        tables: Tables,
        sources: Mapping[str, Resume],
        number: int,
        kinds: Mapping[str, str],
        strict: bool = False,
    ) -> Counts:
        """One transaction of records that it owns, and the offsets after them; one with this number once only."""
        given = [[name, own.offset, own.note, own.again] for name, own in sources.items()]
        what = {"sources": given, "number": number, "kinds": dict(kinds), "strict": strict}
        said = self._done("own", tables=_data(tables), **what)
        return counts_of_data(said)

    def tried(self, tables: Tables, kinds: Mapping[str, str]) -> Counts:
        """How these records would fare."""
        return counts_of_data(self._done("tried", tables=_data(tables), kinds=dict(kinds)))

    def standing(self) -> Standing:
        """How far it is; what has arrived is deleted first."""
        return Standing.of_data(self._done("standing"))

    def note(self, source: str) -> bytes:
        """What the spout of a source noted with its last batch."""
        noted: bytes = self._done("note", source=source)
        return noted

    def compact(self) -> dict[str, Any]:
        """Give back what old versions take."""
        said: dict[str, Any] = self._done("compact")
        return said

    def close(self) -> None:
        """End it. Closing twice is nothing."""
        with self._turn:
            self.closed = True
            self._end(30.0)

    def _done(self, do: str, **what: Any) -> Any:
        """Have one thing done, by the next owner if this one ends at it."""
        with self._turn:
            for again in range(_TRIES):
                try:
                    return self._ask(do, **what)
                except (HolderLost, HolderSilent):
                    if again == _TRIES - 1:
                        raise
                    self.follow()
        raise AssertionError("it returns or raises")

    def _ask(self, do: str, **what: Any) -> Any:
        try:
            if self._there is None:
                raise Gone
            return self._there.ask(do, **what)
        except (Gone, Closed):
            raise HolderLost(self.folder, self.name, "it has ended") from None


def _data(tables: Tables) -> dict[str, list[Any]]:
    return {name: [batch_data(batch) for batch in parts] for name, parts in tables.items()}
