"""A child that inherits an engine by a fork, while a thread of the parent writes and has its locks."""

from __future__ import annotations

import ast
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from tests.cache.processes import in_fork
from tests.waiting import PATIENCE

_DOC = {"id": 1, "name": "Sue"}
_INTERNAL = {  # part of an opening, or without a lock
    "begin_group",
    "holder",
    "last_scrub",
    "meters",
    "store",
}
_Call = Callable[[ps.Engine], object]
_CALLS: dict[str, _Call] = {
    "put": lambda e: e.put("users", _DOC),
    "put_many": lambda e: e.put_many("users", [_DOC]),
    "delete": lambda e: e.delete("users", 1),
    "batch": lambda e: e.batch().__enter__(),
    "ingest": lambda e: e.ingest([ps.Record("users", 1, _DOC, offset=1)], source="s", resume=2),
    "remembered": lambda e: e.remembered("s"),
    "load": lambda e: next(e.load("users", [])),
    "take": lambda e: e.take({"users": []}),
    "compact": lambda e: e.compact(),
    "copy": lambda e: e.copy("nowhere"),
    "flush": lambda e: e.flush(),
    "settle": lambda e: e.settle(),
    "snapshot": lambda e: e.snapshot(),
    "changes": lambda e: next(e.changes()),
    "feed": lambda e: next(e.feed()),
    "status": lambda e: e.status(),
    "digest": lambda e: e.digest(),
    "begin_refill": lambda e: e.begin_refill([], {}),
    "refill": lambda e: e.refill("nowhere"),
    "begin_scrubbing": lambda e: e.begin_scrubbing(None),
    "scrub_once": lambda e: e.scrub_once(),
    "migrate": lambda e: e.migrate(),
    "migrate_as": lambda e: e.migrate_as({}),
    "preview": lambda e: e.preview(app()),
    "check": lambda e: e.check(),
    "repost": lambda e: e.repost("users", _DOC),
    "repost_many": lambda e: e.repost_many({"users": [_DOC]}),
    "restate": lambda e: e.restate("users"),
    "quarantine": lambda e: next(e.quarantine()),
    "retry": lambda e: e.retry(),
    "drop": lambda e: e.drop("r1"),
    "advance": lambda e: e.advance("users", 1),
    "late": lambda e: next(e.late("by_name")),
    "rest": lambda e: e.rest(["s"]),
    "tick": lambda e: e.tick(),
    "watermarks": lambda e: e.watermarks(),
    "session": lambda e: e.session("s").put_many("users", [_DOC]),
    "session_upto": lambda e: e.session_upto("s"),
    "write": lambda e: e.write({"users": []}),
    "write_if": lambda e: e.write_if("users", [], False, {1: ps.ABSENT}, False),
}
_BUILDING: dict[str, Callable[[Any], object]] = {
    "begin": lambda e: e.store.building.begin(),
    "build_once": lambda e: e.store.building.build_once(1),
}
_PARTED: dict[str, Callable[[Any], object]] = {
    "carry": lambda e: e.store.carry(),
    "still": lambda e: e.store.still().__enter__(),
}


def app(held: threading.Event | None = None, go: threading.Event | None = None) -> ps.App:
    """Return an app with a view that blocks at one document, and blocks the writer with it."""
    shop = ps.App("shop")
    users = shop.table("users", key="id")

    def by_name(doc: Any) -> Any:
        if doc["id"] == 0 and held is not None and go is not None:
            held.set()
            go.wait(PATIENCE)
        yield doc["name"], 1

    users.view("by_name", reduce=ps.count())(by_name)
    return shop


@contextmanager
def while_a_thread_puts(engine: ps.Engine, held: threading.Event, go: threading.Event) -> Iterator[None]:
    """Keep a thread in the middle of a put."""
    thread = threading.Thread(target=engine.put, args=("users", {"id": 0, "name": "Joe"}))
    thread.start()
    try:
        assert held.wait(PATIENCE)
        yield
    finally:
        go.set()
        thread.join()


def refusals(calls: dict[str, Callable[[Any], object]], engine: Any) -> dict[str, str]:
    """Run each call in a forked child.

    Return the kind of each error, or an empty text. A hanging call ends the child.
    """
    out: dict[str, str] = {}

    def call_each() -> dict[str, str]:
        for name, call in calls.items():
            signal.alarm(60)
            try:
                call(engine)
                out[name] = ""
            except Exception as error:
                out[name] = type(error).__name__
        engine.close()
        signal.alarm(0)
        return out

    said = in_fork(call_each)
    assert said, "a call hung in the child"
    found: dict[str, str] = ast.literal_eval(said)
    return found


@pytest.mark.parametrize("kind", ["disk", "memory", "group", "partitions"])
def test_every_call_in_a_child_is_refused_at_once(store_path: Path, kind: str) -> None:
    held, go = threading.Event(), threading.Event()
    more: dict[str, Any] = {"group": {"durability": "group"}, "partitions": {"partitions": 2}}.get(kind, {})
    with ps.open(
        app(held, go), None if kind == "memory" else store_path, listen=False, processes=False, **more
    ) as engine:
        calls = {**_CALLS, **_BUILDING, **(_PARTED if kind == "partitions" else {})}
        public = {name for name in dir(engine) if not name.startswith("_")}
        assert public - _INTERNAL - {"close"} == set(_CALLS)
        with while_a_thread_puts(engine, held, go):
            assert refusals(calls, engine) == dict.fromkeys(calls, "ForkedStore")
        engine.flush()
        with engine.snapshot() as snap:
            assert dict(snap.view("by_name").items()) == {"Joe": 1}


@pytest.mark.parametrize("partitions", [None, 2])
def test_a_reader_and_its_snapshot_are_refused_in_a_child(store_path: Path, partitions: int | None) -> None:
    with ps.open(app(), store_path, partitions=partitions, processes=False, listen=False) as engine:
        engine.put("users", _DOC)
    calls: dict[str, Callable[[Any], object]] = {
        "snapshot": lambda e: e.snapshot(),
        "status": lambda e: e.status(),
        "view": lambda e: snap.view("by_name").get("Sue"),
        "items": lambda e: list(snap.view("by_name").items()),
        "document": lambda e: snap.table("users")[1],
        "documents": lambda e: list(snap.table("users").items()),
    }
    with ps.open(app(), store_path, readonly=True) as engine, engine.snapshot() as snap:
        assert refusals(calls, engine) == dict.fromkeys(calls, "ForkedStore")
        assert snap.view("by_name")["Sue"] == 1


def test_a_ticket_is_refused_in_a_child_unless_it_is_settled() -> None:
    held, go = threading.Event(), threading.Event()
    with ps.open(app(held, go), None, durability="group") as engine:
        early = engine.put("users", _DOC)
        assert isinstance(early, ps.Ticket)
        early.result(60)
        late = engine.put("users", {"id": 0, "name": "Joe"})
        assert isinstance(late, ps.Ticket)
        assert held.wait(PATIENCE)
        calls: dict[str, Callable[[Any], object]] = {"early": lambda e: early.result(), "late": lambda e: late.result()}
        assert refusals(calls, engine) == {"early": "", "late": "ForkedStore"}
        go.set()
