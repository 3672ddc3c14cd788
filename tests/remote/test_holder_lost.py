"""Accidents of a holder during a client's call: it is stopped, killed or closed, or the client ends."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import penstock as ps
from penstock.core.upkeep import store_compaction
from penstock.engine import HolderLost, HolderSilent, StoreWriter, post, writer
from penstock.remote import server, socket_wire
from tests.remote.holding import DOCS, held, lines_of, shop
from tests.waiting import PATIENCE

SHORT = 0.3  # seconds to wait for a stopped process; a running one gets more
_BEATS = 12


def kill(name: str) -> dict[str, Any]:
    """Return a document that stops or kills any process that maps it, except this one."""
    return {"id": 99, "name": name, "ts": 99, "by": os.getpid()}


def load(to: StoreWriter, doc: dict[str, Any]) -> Any:
    return [counts for _, counts in to.load("users", [lines_of([doc], 0)])]


# Each operation, with the expected state of its document or deletion after it.
OPERATIONS: dict[str, tuple[str, Callable[[StoreWriter, dict[str, Any]], Any]]] = {
    "put": ("take", lambda to, doc: to.put("users", doc)),
    "put_many": ("take", lambda to, doc: to.put_many("users", [doc])),
    "post": ("take", lambda to, doc: post(to, [ps.Record("users", None, doc)])),
    "ingest": ("ingest", lambda to, doc: to.ingest([ps.Record("users", 99, doc, offset=0)], "a", 1)),
    "load": ("load", load),
    "delete": ("take", lambda to, doc: to.delete("users", 7, ts=99)),
}


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name != "delete"])
def test_a_holder_is_killed_before_the_commit(name: str, store_path: Path) -> None:
    do = OPERATIONS[name][1]
    with held(store_path) as child, writer(store_path, shop()) as client:
        client.put_many("users", DOCS, batch=25)
        with pytest.raises(HolderLost, match=f"process {child.pid} .*60 records are in, .* run this again"):
            do(client, kill("Kill"))
        with pytest.raises(ps.Closed):
            do(client, kill("Kill"))
    with writer(store_path, shop()) as local:
        assert local.holder is None
        assert str(do(local, kill("Kill"))) in ("1 applied", str([ps.Counts(applied=1)]))
        assert_content(local, 61)


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_holder_is_killed_after_the_commit(name: str, store_path: Path) -> None:
    operation, do = OPERATIONS[name]
    doc = {"id": 99, "name": "Sue", "ts": 99}
    with writer(store_path, shop()) as local:
        local.put_many("users", DOCS)
    with (
        held(store_path, "lost", operation),
        writer(store_path, shop()) as client,
        pytest.raises(HolderLost, match="what it was given may be in or not; run this again"),
    ):
        do(client, doc)
    with writer(store_path, shop()) as local:
        again = do(local, doc)
        counts = again[0] if isinstance(again, list) else again
        assert (counts.applied, counts.records) == (0, 1)
        assert_content(local, 59 if name == "delete" else 61)


@pytest.mark.parametrize("when", ["told", "lost"])
def test_a_holder_is_killed_while_it_compacts(when: str, store_path: Path) -> None:
    with writer(store_path, shop()) as local:
        for ts in range(5):
            local.put_many("users", [doc | {"ts": ts} for doc in DOCS], batch=10)
        digest = digest_of(local)
    with held(store_path, when, "compact"), writer(store_path, shop()) as client, pytest.raises(HolderLost):
        client.compact()
    with writer(store_path, shop()) as local:
        assert digest_of(local) == digest
        local.compact()
        assert digest_of(local) == digest
        assert_content(local, 60)


def assert_content(local: Any, documents: int) -> None:
    with local.snapshot() as snap:
        assert len(snap.table("users")) == documents
        assert sum(row.value for row in snap.view("names")) == documents


def digest_of(local: Any) -> str:
    digest: str = local.digest()
    return digest


def test_a_holder_that_is_stopped_is_not_waited_for(store_path: Path) -> None:
    with held(store_path) as child, writer(store_path, shop()) as client:
        os.kill(child.pid, signal.SIGSTOP)
        silent = f"process {child.pid} .*holding.*not answered for 0.3 s.*end it, then run this again"
        with pytest.raises(HolderSilent, match=silent):
            writer(store_path, shop(), patience=SHORT)
        os.kill(child.pid, signal.SIGCONT)
        with writer(store_path, shop(), patience=PATIENCE) as patient:
            assert patient.put("users", DOCS[0]).applied == 1
        assert client.put("users", DOCS[0]).equal == 1


def test_a_holder_that_stops_in_the_middle_is_not_waited_for(store_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with held(store_path), writer(store_path, shop()) as client:
        client.put_many("users", DOCS[:2])
        monkeypatch.setattr(client, "_patience", SHORT)
        with pytest.raises(HolderSilent, match=r"0.3 s \(2 records are in, and what .* last may be too\)"):
            client.put("users", kill("Stop"))


def test_a_batch_that_a_stopped_holder_does_not_take_is_not_waited_for(
    store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with held(store_path) as child, writer(store_path, shop()) as client:
        os.kill(child.pid, signal.SIGSTOP)
        monkeypatch.setattr(client, "_patience", SHORT)
        client._wire._sock.settimeout(SHORT)
        with pytest.raises(HolderSilent):
            client.put("users", {"id": 1, "ts": 1, "name": "x" * 10_000_000})


def test_a_holder_that_is_busy_is_waited_for(store_path: Path) -> None:
    """Each sign of life restarts the wait, however many arrive."""
    beats, waits, enough = 0, set[float | None](), threading.Event()
    receive = socket_wire.Wire.receive

    def counted(own: socket_wire.Wire, patience: float | None) -> Any:
        nonlocal beats
        message = receive(own, patience)
        if "beat" in message:
            beats += 1
            waits.add(patience)
        if beats == _BEATS:
            enough.set()
        return message

    app = shop()

    @app.table_of("users").view(reduce=ps.count())
    def slow(user: dict[str, Any]) -> Any:
        assert enough.wait(PATIENCE)
        yield None

    with (
        mock.patch.object(server, "BEAT", 0.05),
        mock.patch.object(socket_wire.Wire, "receive", counted),
        ps.open(app, store_path),
        writer(store_path, app, patience=PATIENCE) as client,
    ):
        assert client.put("users", DOCS[0]).applied == 1
    assert waits == {PATIENCE}


def test_who_goes_away_is_not_worked_for(store_path: Path) -> None:
    with mock.patch.object(store_compaction, "STEP_RECORDS", 10), ps.open(shop(), store_path) as engine:
        for ts in range(5):
            engine.put_many("users", [doc | {"ts": ts} for doc in DOCS], batch=10)

        def go(done: int, total: int) -> None:
            raise KeyboardInterrupt

        with writer(store_path, shop()) as client, pytest.raises(KeyboardInterrupt):
            client.compact(go)
        with writer(store_path, shop()) as client:
            assert client.put("users", DOCS[0]).records == 1


def test_a_holder_that_closes_ends_what_takes_long(store_path: Path) -> None:
    with mock.patch.object(store_compaction, "STEP_RECORDS", 10):
        engine = ps.open(shop(), store_path)
        for ts in range(5):
            engine.put_many("users", [doc | {"ts": ts} for doc in DOCS], batch=10)
        closing = threading.Thread(target=engine.close)

        def close(done: int, total: int) -> None:
            if not closing.ident:
                closing.start()
                while not engine._holder._closed:
                    pass

        with writer(store_path, shop()) as client, pytest.raises((ps.Closed, HolderLost)):
            client.compact(close)
        closing.join(PATIENCE)
    with writer(store_path, shop()) as local:
        assert local.holder is None
        assert_content(local, 60)


def test_a_request_under_way_is_finished_before_the_store_is_closed(store_path: Path) -> None:
    app, begun = shop(), threading.Event()

    @app.table_of("users").view(reduce=ps.count())
    def slow(user: dict[str, Any]) -> Any:
        begun.set()
        while not engine._holder._closed:
            pass
        yield None

    engine = ps.open(app, store_path)
    answers: list[Any] = []

    def put() -> None:
        with writer(store_path, app) as client:
            answers.append(client.put("users", DOCS[0]))

    thread = threading.Thread(target=put)
    thread.start()
    assert begun.wait(PATIENCE)
    engine.close()
    thread.join(PATIENCE)
    assert [str(counts) for counts in answers] == ["1 applied"]


def test_a_connection_that_asks_for_nothing_does_not_keep_the_store_open(store_path: Path) -> None:
    engine = ps.open(shop(), store_path)
    with writer(store_path, shop()) as client:
        engine.close()
        with pytest.raises(HolderLost):
            client.put("users", DOCS[0])
