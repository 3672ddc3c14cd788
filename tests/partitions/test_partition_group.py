"""Group durability over several partitions: tickets share commits, and a kill of all processes loses no result."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

import penstock as ps
from penstock.cache import PenstockError, encode_key, writer_pid
from penstock.core.metadata.store_layout import read_layout
from penstock.engine import PartitionedStore
from penstock.partitions.member import Member
from tests.cache.processes import heard, process
from tests.partitions.partition_app import Recompute, app

NAMES = ("Sue", "Joe", "Bob", "Ann")
PATIENCE = 60.0


def document(number: int) -> dict[str, Any]:
    return {"id": number, "name": NAMES[number % 4], "city": NAMES[number % 3], "n": number}


@pytest.fixture(params=["memory", "disk"])
def engine(request: pytest.FixtureRequest, store_path: Path) -> Iterator[Any]:
    path = None if request.param == "memory" else store_path
    with ps.open(app, path, partitions=2, durability="group", processes=False) as own:
        yield own


def views(engine: Any) -> dict[str, dict[Any, Any]]:
    with engine.snapshot(consistency="position") as snap:
        return {name: dict(snap.view(name).items()) for name in ("cities", "best", "letters", "told", "lived")}


def of(numbers: list[int]) -> dict[str, dict[Any, Any]]:
    """Compute the views of these documents, in plain Python."""
    recompute = Recompute()
    recompute.take(ps.Record("users", number, document(number)) for number in numbers)
    found = recompute.views()
    return {name: found[name] for name in ("cities", "best", "letters", "told", "lived")}


def test_each_ticket_answers_for_its_own_records(engine: Any) -> None:
    answers(engine)


def test_tickets_of_partitions_in_processes(store_path: Path) -> None:
    with ps.open(app, store_path, partitions=2, durability="group") as engine:
        answers(engine)


def answers(engine: Any) -> None:
    tickets = [engine.put("users", document(i)) for i in range(50)]
    tickets.append(engine.put("users", {"name": "Sue"}))
    tickets.append(engine.put_many("users", [document(i) for i in range(60)] + [{"id": None}]))
    tickets.append(engine.delete("users", 7))
    engine.flush()
    assert all(ticket.done() for ticket in tickets)
    results = [ticket.result() for ticket in tickets]
    assert [counts.applied for counts in results] == [1] * 50 + [0, 10, 1]
    assert [counts.equal for counts in results] == [0] * 51 + [50, 0]
    assert [counts.rejected for counts in results] == [0] * 50 + [1, 1, 0]
    assert results[50].rejections[0].where == "document 1"
    assert results[51].rejections[0].where == "document 61"
    assert views(engine) == of([i for i in range(60) if i != 7])


def test_tickets_that_wait_share_a_commit(engine: Any) -> None:
    before = sum(engine.snapshot().position)
    with engine.store.state.lock:  # nothing is committed meanwhile
        tickets = [engine.put("users", document(i)) for i in range(200)]
        assert not any(ticket.done() for ticket in tickets)
    engine.flush()
    with engine.snapshot() as snap:
        batches = sum(snap.position) - before
    assert batches < 40, "commits of batches and of productions, far fewer than puts"
    engine.settle()
    assert [ticket.result().applied for ticket in tickets] == [1] * 200


def test_other_writes_come_after_the_puts_before_them(engine: Any) -> None:
    first = engine.put("users", document(1))
    with engine.batch() as batch:
        batch.delete("users", 1)
    assert first.done()
    assert batch.counts.applied == 1
    second = engine.put("users", document(2))
    assert engine.ingest([ps.Record("users", 2, None, offset=0)], "file:a", 1).applied == 1
    assert second.done()
    third = engine.put_many("users", [document(3)], strict=True)
    assert third.done()
    with pytest.raises(ps.BatchRejected):
        engine.put_many("users", [document(4), {}], strict=True)
    fourth = engine.put("users", document(5))
    engine.settle()
    assert fourth.done()
    assert views(engine) == of([3, 5])


def test_a_close_commits_the_tickets_that_wait(store_path: Path) -> None:
    with ps.open(app, store_path, partitions=2, durability="group", processes=False) as engine:
        tickets: list[Any] = [engine.put("users", document(i)) for i in range(30)]
    assert all(ticket.done() for ticket in tickets)
    with ps.open(app, store_path, processes=False) as engine:
        assert views(engine) == of(list(range(30)))


def test_a_failure_is_the_result_of_its_tickets(monkeypatch: pytest.MonkeyPatch) -> None:
    with ps.open(app, None, partitions=2, durability="group") as engine:
        with monkeypatch.context() as patch:

            def fails(*_: object, **__: object) -> Any:
                raise PenstockError("the disk is gone")

            patch.setattr(Member, "take", fails)
            failed: Any = engine.put("users", document(1))
            with pytest.raises(PenstockError, match="the disk is gone"):
                failed.result(PATIENCE)
        again: Any = engine.put("users", document(1))
        assert again.result(PATIENCE).applied == 1


def test_tickets_leave_the_content_of_waiting() -> None:
    choose = Random(3)
    with ps.open(app, None, partitions=3) as waits, ps.open(app, None, partitions=3, durability="group") as group:
        for _ in range(120):
            key, n = choose.randrange(40), choose.randrange(100)
            for engine in (waits, group):
                if n < 20:
                    engine.delete("users", key)
                else:
                    engine.put("users", document(key) | {"n": n, "name": NAMES[n % 4]})
        group.flush()
        assert waits.digest() == group.digest()


def test_many_threads_put(engine: Any) -> None:
    def put(first: int) -> None:
        for ticket in [engine.put("users", document(i)) for i in range(first, 200, 4)]:
            assert ticket.result(PATIENCE).applied == 1

    threads = [threading.Thread(target=put, args=[i]) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert views(engine) == of(list(range(200)))


# -- crashes

_WRITER = """
from collections import deque
import penstock as ps
from tests.partitions.partition_app import app
from tests.partitions.test_partition_group import document
with ps.open(app, sys.argv[1], partitions=2, durability="group") as engine:
    waiting = deque()
    say("open")
    for number in range(1_000_000):
        waiting.append((number, engine.put("users", document(number))))
        while waiting[0][1].done() or len(waiting) > 300:
            done, ticket = waiting.popleft()
            ticket.result(60)
            say(done)
            if not waiting:
                break
"""


def killed(path: Path, after: int) -> int:
    """Kill the writer and its partitions after this number is acknowledged; return the last acknowledged number."""
    with process(_WRITER, path) as child:
        assert heard(child) == "open"
        last = -1
        while last < after:
            last = int(heard(child))
        layout = read_layout(str(path))
        assert layout is not None
        for pid in [child.pid, *(writer_pid(folder) for folder in layout.folders(str(path)))]:
            with suppress(ProcessLookupError):
                os.kill(pid or child.pid, signal.SIGKILL)
        assert child.stdout is not None
        said = child.stdout.read()
    return int(said[: said.rfind("\n") + 1].split()[-1]) if "\n" in said else last


def check(path: Path, last: int) -> None:
    """Check that no acknowledged document is missing, each partition has a prefix of its documents, and views agree."""
    with ps.open(app, path, processes=False) as engine:
        assert isinstance(engine.store, PartitionedStore)
        engine.settle()
        with engine.snapshot() as snap:
            stored = [sorted(number for number, _ in part.table("users").items()) for part in snap.parts]
        numbers = sorted(stored[0] + stored[1])
        missing = set(range(last + 1)) - set(numbers)
        assert not missing, f"{len(missing)} acknowledged documents are missing"
        for place, own in enumerate(stored):
            owned = [n for n in range(max(own, default=-1) + 1) if engine.store.ranges.of(encode_key(n)) == place]
            assert own == owned, f"partition {place} lacks a document before one that is there"
        assert views(engine) == of(numbers)


@pytest.mark.parametrize("after", [300])
def test_a_kill_of_all_processes_loses_no_result(after: int, store_path: Path) -> None:
    check(store_path, killed(store_path, after))


@pytest.mark.parametrize(
    ("bug", "words"),
    [
        (lambda last: last + 100_000, "acknowledged documents are missing"),
        (lambda last: -1, "lacks a document before one that is there"),
    ],
)
def test_the_check_sees_a_lost_document(bug: Callable[[int], int], words: str, store_path: Path) -> None:
    with ps.open(app, store_path, partitions=2, processes=False) as engine:
        engine.put_many("users", [document(i) for i in range(50) if i != 20 or "missing" in words])
    with pytest.raises(AssertionError, match=words):
        check(store_path, bug(49))
