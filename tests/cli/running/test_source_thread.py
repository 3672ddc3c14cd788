"""The signs of life of a source: a thread that waits for the store gives them, and one that hangs doesn't."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import penstock as ps
from penstock.cli.running.source_thread import SourceThread
from penstock.engine import Engine, StandbyWriter
from penstock.engine.writers.open_writer import writer
from penstock.gateway import TableBatch
from penstock.remote import SESSION, MemberClaim
from penstock.spout import Contract, Recall, SpoutBatch
from tests.harness.planting import Bug
from tests.waiting import PATIENCE

SOURCE = "users=memory"
_AGAIN = 0.01


class Steps:
    """A source of one batch. It waits for permission to give it, and ends after it."""

    contract = Contract(True, "it is a test's")

    def __init__(self) -> None:
        self.ended = False
        self.asked, self.on = threading.Event(), threading.Event()

    def begin(self, recall: Recall) -> None:
        """Begin without a former offset."""

    def next_batch(self, limit: int, wait: float = 0.0) -> SpoutBatch | None:
        """Return the batch after the permission."""
        if self.ended:
            return None
        self.asked.set()
        assert self.on.wait(PATIENCE)
        self.ended = True
        return SpoutBatch(TableBatch([b'{"id": 1}']), SOURCE, 0, 1)

    def lag(self) -> int | None:
        """Return None: the lag is unknown."""

    def committed(self, batch: SpoutBatch) -> None:
        """Ignore the commit."""

    def close(self) -> None:
        """Do nothing: no resource is open."""


def who_waits_lives_and_who_hangs_does_not(folder: Path) -> None:
    now = 0.0
    app = ps.App("shop")
    table = app.table("users", key="id")
    other, own = (MemberClaim(str(folder), SOURCE, "g", lambda: now) for _ in range(2))
    spout = Steps()
    with writer(folder / "state", app) as store:
        assert isinstance(store, Engine)
        assert (other.take(), own.take()) == (None, None)
        pump = SourceThread(StandbyWriter(lambda: store), "users", table, spout, lambda: False, claim=own)
        pump.start()
        try:
            assert spout.asked.wait(PATIENCE)
            pump.beat()
            assert other.place() == (0, 2), "it has begun"
            now += SESSION
            pump.beat()
            assert other.place() == (0, 1), "its source gives nothing, and doesn't come back"
            with store.store.state.lock:
                spout.on.set()
                until(lambda: pump._waits)
                now += SESSION
                pump.beat()
                assert other.place() == (0, 2), "it waits for the store"
        finally:
            spout.on.set()
            pump.join(PATIENCE)
        assert pump.error is None
        assert pump.counts.applied == 1
        assert other.place() == (0, 1), "it has ended"


def until(found: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not found():
        assert time.monotonic() < end
        threading.Event().wait(_AGAIN)


BUGS = [
    Bug("who waits for the store is dead", "cli.running.source_thread:SourceThread.beat", "self._waits", "False"),
    Bug("who hangs is alive", "cli.running.source_thread:SourceThread.beat", "self._waits", "True"),
    Bug("who has ended is alive", "cli.running.source_thread:SourceThread.run", "self._claim.end(ENDED)", "pass"),
]


def test_who_waits_lives_and_who_hangs_does_not(tmp_path: Path) -> None:
    who_waits_lives_and_who_hangs_does_not(tmp_path)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Bug, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    with pytest.raises(AssertionError, match=r"it waits|doesn't come back|it has ended"):
        who_waits_lives_and_who_hangs_does_not(tmp_path)
