"""Commit puts in groups: by one thread, or by the thread that puts alone and waits; planted bugs are found."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

import penstock as ps
from penstock.core import Batch
from penstock.engine.group_commit import Committer
from tests.harness.planting import Bug
from tests.waiting import PATIENCE

BUGS = [
    Bug("the last put is committed first", "engine.group_commit:Committer._take", "waiting.popleft", "waiting.pop"),
    Bug(
        "a thread commits for itself beside others",
        "engine.group_commit:Committer._is_alone",
        "self._putter == self._last == thread",
        "True",
    ),
    Bug(
        "a thread never commits for itself",
        "engine.group_commit:Committer._is_alone",
        "self._putter == self._last == thread",
        "False",
    ),
    Bug(
        "a thread commits without its turn",
        "engine.group_commit:Committer._lead",
        "if not self._turn.acquire(blocking=False):",
        "if False:",
    ),
]


class Commits:
    """The commits of a committer: by each its thread and its documents."""

    def __init__(self) -> None:
        self.groups: list[tuple[int, list[str]]] = []
        self.error: BaseException | None = None
        self.held: threading.Event | None = None
        self.entered = threading.Event()
        self._one = threading.Lock()

    def commit(self, work: Sequence[tuple[str, Batch]]) -> dict[int, ps.Counts]:
        assert self._one.acquire(blocking=False), "two threads commit at once"
        try:
            self.entered.set()
            if self.held is not None:
                assert self.held.wait(PATIENCE)
            if self.error is not None:
                raise self.error
            self.groups.append((threading.get_ident(), [batch.origin for _, batch in work]))
            return {id(batch): ps.Counts(applied=batch.size) for _, batch in work}
        finally:
            self._one.release()

    @property
    def order(self) -> list[str]:
        return [name for _, names in self.groups for name in names]


@contextmanager
def committing(commits: Commits) -> Iterator[Committer]:
    """Make a committer, and close it at the end, also if a check fails."""
    of = Committer(commits.commit, lambda: None)
    try:
        yield of
    finally:
        of.close()


def put(of: Committer, name: str, n: int = 1) -> ps.Ticket:
    batch = Batch(origin=name)
    batch.records.lines = [b"{}"] * n
    return of.submit("t", [batch])


def elsewhere(call: Callable[[], Any]) -> Any:
    """Call in another thread, and return the result."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(call()))
    thread.start()
    thread.join(PATIENCE)
    assert found
    return found[0]


def check_one_thread() -> None:
    """Let one thread put and wait, and another one join it for a while."""
    commits, own = Commits(), threading.get_ident()
    with committing(commits) as of:
        assert put(of, "first").result(None).applied == 1
        for i in range(5):
            assert put(of, f"own {i}").result().applied == 1
        assert [thread == own for thread, _ in commits.groups] == [False] + [True] * 5
        tickets = [put(of, f"waits {i}", 2) for i in range(3)]
        assert tickets[-1].result().applied == 2
        assert commits.groups[-1] == (own, ["waits 0", "waits 1", "waits 2"])
        other = elsewhere(lambda: put(of, "other"))
        assert put(of, "beside").result().applied == other.result().applied == 1
        assert own not in {thread for thread, names in commits.groups if {"other", "beside"} & {*names}}
        assert put(of, "nobody waits").result(PATIENCE).applied == 1
        of.close()
        assert commits.order[-3:] == ["other", "beside", "nobody waits"]


def check_many_threads(seed: int) -> None:
    """Let threads put, wait and flush. Each ticket has its result, and puts of a thread keep their order."""
    commits = Commits()
    with committing(commits) as of:
        wrong: list[BaseException] = []

        def work(thread: int) -> None:
            draw = random.Random(f"{seed} {thread}")
            try:
                for i in range(30):
                    n = draw.randrange(1, 4)
                    ticket = put(of, f"{thread} {i}", n)
                    if draw.random() < 0.5:
                        assert ticket.result().applied == n
                    elif draw.random() < 0.2:
                        of.flush()
                        assert ticket.done()
            except BaseException as error:
                wrong.append(error)

        threads = [threading.Thread(target=work, args=[i]) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        of.close()
        assert not wrong, wrong
        assert sorted(commits.order) == sorted(f"{thread} {i}" for thread in range(4) for i in range(30))
        for thread in range(4):
            assert [name for name in commits.order if name.startswith(f"{thread} ")] == [
                f"{thread} {i}" for i in range(30)
            ]


def check_busy() -> None:
    """Wait for tickets while another thread commits for itself."""
    commits = Commits()
    with committing(commits) as of:
        put(of, "first").result()
        put(of, "second").result()
        commits.held, commits.entered = threading.Event(), threading.Event()
        thread = threading.Thread(target=lambda: elsewhere(lambda: put(of, "held").result()))
        leader = put(of, "led")
        waits = threading.Thread(target=leader.result)
        waits.start()
        assert commits.entered.wait(PATIENCE)
        thread.start()
        commits.held.set()
        for each in (waits, thread):
            each.join(PATIENCE)
        of.close()
        assert commits.order == ["first", "second", "led", "held"]


def check(seeds: range = range(3)) -> None:
    """Check all of these."""
    check_one_thread()
    check_busy()
    for seed in seeds:
        check_many_threads(seed)


def test_one_thread_commits_for_itself_and_many_in_groups() -> None:
    check()


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    with pytest.raises((AssertionError, RuntimeError)):
        check()


@pytest.mark.parametrize("error", [ps.PenstockError("it is full"), KeyboardInterrupt()])
def test_an_error_of_a_thread_that_commits_for_itself_is_of_its_tickets(error: BaseException) -> None:
    commits = Commits()
    with committing(commits) as of:
        put(of, "first").result()
        commits.error = error
        earlier = put(of, "second")
        ticket = put(of, "third")
        for each in (ticket, earlier):
            with pytest.raises(type(error)):
                each.result()
        commits.error = None
        of.flush()
        assert put(of, "fourth").result().applied == 1
        of.close()
        with pytest.raises(ps.Closed):
            put(of, "fifth")


def test_a_store_has_all_documents_of_one_waiting_thread() -> None:
    app = ps.App("shop")
    app.table("users", key="id").view("by_name", key="name", reduce=ps.count())
    with ps.open(app, None, durability="group") as engine:
        for i in range(20):
            ticket = engine.put("users", {"id": i, "name": "Sue"})
            assert isinstance(ticket, ps.Ticket)
            assert ticket.result().applied == 1
            with engine.snapshot() as snap:
                assert snap.view("by_name")["Sue"] == i + 1
