"""Writes sent to the holder of the store have the effect of local writes. Tests of the socket and of permissions."""

from __future__ import annotations

import gc
import os
import signal
import socket
import stat
import struct
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import penstock as ps
from penstock.cache import WriterLock
from penstock.engine import Engine, StoreWriter, post, writer
from penstock.engine.writers import open_writer
from penstock.remote import socket_wire
from penstock.views import Counts
from tests.cache.processes import heard, in_fork, process
from tests.remote.holding import DOCS, held, lines_of, shop
from tests.waiting import PATIENCE

SHORT = 0.3


def work(to: StoreWriter) -> list[Counts]:
    """Do everything that a writer can do. Return the counts."""
    out = [
        to.put("users", DOCS[0]),
        to.put("users", b'{"id": 1, "name": "Joe", "ts": 1}'),
        to.put("users", {"id": None}),
        to.put("users", 7),
        to.put_many("users", DOCS, batch=7),
        to.put_many("users", b"\n\n".join([b'{"id": 90, "name": "Sue", "ts": 9}', b"no", b'{"id": 91, "ts": 1}'])),
        to.delete("users", 3),
        to.delete("users", 4, ts=100),
        to.put("users", {"id": 4, "name": "late", "ts": 99}),
        to.put("users", {"id": (1, "a"), "name": b"\0", "age": Decimal("1.50"), "big": 1 << 80, "ts": 1 << 70}),
        to.delete("users", (1, "a"), ts=1 << 71),
        to.put("marks", {"id": 1}, ts=3),
        to.delete("marks", 1, ts=2),
        post(to, [ps.Record("users", 8, None), ps.Record("marks", None, {"id": 2}, ts=1)]),
        to.ingest([ps.Record("users", 5, {"id": 5, "name": "Sam", "ts": 70}, offset=0)], "b", 1),
        to.ingest([ps.Record("users", 5, {"id": 5, "name": "Joe", "ts": 71}, offset=0)], "b", 1),
    ]
    out += [counts for _, counts in to.load("users", [lines_of(DOCS[:9], 0), lines_of(DOCS[7:12], 9)])]
    remembered = to.remembered("a")
    assert remembered is not None
    assert (remembered.offset, remembered.note) == (14, b"n")
    assert to.remembered("c") is None
    with pytest.raises(ps.BatchRejected, match="document 3") as strict:
        to.put_many("users", [*DOCS[:2], {"id": None}], strict=True, batch=2)
    assert strict.value.accepted == 2
    for wrong in (lambda: to.put("usres", DOCS[0]), lambda: post(to, [ps.Record("usres", 1, DOCS[0])])):
        with pytest.raises(ps.UnknownName) as unknown:
            wrong()
        assert unknown.value.nearest == "users"
    assert to.compact().tombstones == 1  # the tombstone of 4; documents 3 and 8 were put again
    return out


def test_a_close_ends_the_threads_that_serve_others(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with ps.open(shop(), tmp_path) as engine, writer(tmp_path, shop()) as client:
        client.put("users", DOCS[0])
        engine.close()
        assert set(threading.enumerate()) <= before


def test_what_is_handed_over_is_done_as_here(tmp_path: Path) -> None:
    with writer(tmp_path / "here", shop()) as local, ps.open(shop(), tmp_path / "there") as engine:
        assert local.holder is None
        with writer(tmp_path / "there", shop()) as client:
            assert client.holder is not None
            assert f"process {os.getpid()}" in client.holder
            assert work(client) == work(local)
        assert isinstance(local, Engine)
        assert engine.digest() == local.digest()
        assert engine.status()["sources"] == local.status()["sources"] == {"a": 14, "b": 1}


def test_a_commit_of_group_durability_is_waited_for(store_path: Path) -> None:
    with ps.open(shop(), store_path, durability="group") as engine, writer(store_path, shop()) as client:
        engine.put("users", DOCS[0])
        assert client.put("users", DOCS[0]).equal == 1
        with engine.snapshot() as snap:
            assert len(snap.table("users")) == 1


def test_several_hand_over_at_once(store_path: Path) -> None:
    with ps.open(shop(), store_path) as engine:

        def put(first: int) -> None:
            with writer(store_path, shop()) as client:
                for i in range(first, first + 30):
                    assert client.put("users", {"id": i, "name": "Sue", "ts": 1}).applied == 1

        threads = [threading.Thread(target=put, args=(100 * i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        put(1000)
        for thread in threads:
            thread.join(PATIENCE)
        with engine.snapshot() as snap:
            assert snap.view("names")["Sue"] == 150


def test_of_several_that_open_a_store_at_once_one_holds_it(store_path: Path) -> None:
    at_once, done = threading.Barrier(5), threading.Barrier(5)
    holders: list[str | None] = []
    failed: list[BaseException] = []

    def put(first: int) -> None:
        try:
            at_once.wait(PATIENCE)
            with writer(store_path, shop()) as to:
                holders.append(to.holder)
                for i in range(first, first + 5):
                    to.put("users", {"id": i, "name": "Sue", "ts": 1})
                done.wait(PATIENCE)
        except BaseException as error:
            failed.append(error)
            done.abort()

    threads = [threading.Thread(target=put, args=(100 * i,)) for i in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not failed
    assert holders.count(None) == 1
    with ps.open(shop(), store_path) as engine, engine.snapshot() as snap:
        assert snap.view("names")["Sue"] == 25


def test_the_holder_knows_its_own_app(store_path: Path) -> None:
    other = ps.App("shop")
    other.table("orders", key="id")
    with (
        ps.open(shop(), store_path),
        writer(store_path, other) as client,
        pytest.raises(ps.UnknownName, match="orders"),
    ):
        client.put("orders", {"id": 1})


def test_memory_of_the_holder(store_path: Path) -> None:
    assert open_writer.memory_of_holder(store_path) is None
    with ps.open(shop(), store_path):
        found = open_writer.memory_of_holder(store_path)
        assert found is not None
        assert found["tables"].keys() == {"users", "marks"}


# -- the socket


def test_the_socket_is_for_its_user_and_goes_with_the_store(store_path: Path) -> None:
    with ps.open(shop(), store_path):
        mode = (store_path / "socket").stat().st_mode
        assert (stat.S_ISSOCK(mode), stat.S_IMODE(mode)) == (True, 0o600)
    assert not (store_path / "socket").exists()


def test_a_path_is_longer_than_the_name_of_a_socket(tmp_path: Path) -> None:
    store = tmp_path / ("a" * 100) / ("b" * 100)
    with ps.open(shop(), store), writer(store, shop()) as client:
        assert client.put("users", DOCS[0]).applied == 1


def test_who_does_not_listen_is_in_the_way(store_path: Path) -> None:
    with (
        ps.open(shop(), store_path, listen=False),
        pytest.raises(ps.StoreInUse, match=f"process {os.getpid()} .*takes no work from other processes"),
    ):
        writer(store_path, shop(), patience=SHORT)


def test_a_folder_that_can_have_no_socket_is_written_all_the_same(
    store_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (store_path / "socket").mkdir(parents=True)
    with ps.open(shop(), store_path) as engine:
        engine.put("users", DOCS[0])
    assert "can't hand work over" in caplog.text


def test_a_socket_that_a_dead_holder_left_is_replaced(store_path: Path) -> None:
    with held(store_path) as child, writer(store_path, shop()) as client:
        assert client.holder is not None
        child.kill()
        child.wait(PATIENCE)
        assert (store_path / "socket").exists()
        with writer(store_path, shop()) as local, writer(store_path, shop()) as again:
            assert local.holder is None
            assert again.holder is not None
            assert again.put("users", DOCS[0]).applied == 1


def test_a_forked_child_neither_serves_nor_ends_it(store_path: Path) -> None:
    with ps.open(shop(), store_path) as engine, writer(store_path, shop()) as client:
        client.put("users", DOCS[0])
        assert "ForkedStore" in in_fork(lambda: client.put("users", DOCS[1]))
        assert in_fork(lambda: (client.close(), engine.close())) == "(None, None)"
        assert client.put("users", DOCS[1]).applied == 1
        with writer(store_path, shop()) as other:
            assert other.put("users", DOCS[2]).applied == 1


_FORKING = """
import os
import penstock as ps
from tests.remote.holding import shop
engine = ps.open(shop(), sys.argv[1])
child = os.fork()
if child:
    say(child)
wait()
"""


def test_a_child_that_lives_on_holds_nothing(store_path: Path) -> None:
    with process(_FORKING, store_path) as parent:
        child = int(heard(parent))
        try:
            parent.kill()
            parent.wait()
            with writer(store_path, shop()) as local:
                assert local.holder is None
        finally:
            os.kill(child, signal.SIGKILL)


def test_an_engine_that_is_dropped_takes_its_socket_along(store_path: Path) -> None:
    engine = ps.open(shop(), store_path)
    connection = socket_wire.connect(str(store_path), PATIENCE)
    assert connection.receive(PATIENCE)["pid"] == os.getpid()
    del engine
    gc.collect()
    assert not (store_path / "socket").exists()
    assert connection.receive(PATIENCE)["failed"]["type"] == "Closed", "it says farewell"
    with pytest.raises(socket_wire.WireClosed):
        connection.receive(PATIENCE)
    connection.close()


# -- permissions


def test_another_user_is_refused(store_path: Path) -> None:
    with ps.open(shop(), store_path), mock.patch.object(os, "geteuid", return_value=4711):
        connection = socket_wire.connect(str(store_path), PATIENCE)
        refusal = connection.receive(PATIENCE)
        connection.close()
        with pytest.raises(ps.PenstockError, match="and this is user 4711; run this as that user"):
            writer(store_path, shop())
    assert "user 4711, which takes work from that user alone" in refusal["failed"]["text"]
    with impostor(store_path, refusal), pytest.raises(ps.PenstockError, match="takes work from that user alone"):
        writer(store_path, shop())


@contextmanager
def impostor(store: Path, *says: Any) -> Iterator[None]:
    """Take the lock of the store without an engine, and send these messages to every client."""
    with WriterLock(store):
        sock = socket_wire.listen(str(store))

        def serve() -> None:
            try:
                while True:
                    connection = socket_wire.Wire(sock.accept()[0])
                    for message in says:
                        connection.send(message)
                    connection.close()
            except (OSError, socket_wire.WireClosed):
                pass

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            socket_wire.end(sock)
            thread.join(PATIENCE)


def test_another_version_is_told_apart(store_path: Path) -> None:
    with impostor(store_path, {"penstock": 99}), pytest.raises(ps.PenstockError, match="another version of penstock"):
        writer(store_path, shop(), patience=SHORT)


def test_what_is_no_holder_is_in_the_way(store_path: Path) -> None:
    with impostor(store_path, "well?"), pytest.raises(ps.PenstockError, match="another version of penstock"):
        writer(store_path, shop(), patience=SHORT)
    with impostor(store_path), pytest.raises(ps.StoreInUse, match="takes no work"):
        writer(store_path, shop(), patience=SHORT)


@pytest.mark.parametrize("said", [b"\0\0\0\1\xc1", b"\xff\xff\xff\xff", b"\0\0", b"\0\0\0\1\x01", b""])
def test_nonsense_ends_its_own_connection(store_path: Path, said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    with ps.open(shop(), store_path), socket.socket(socket.AF_UNIX) as sock:
        monkeypatch.chdir(store_path)
        sock.connect("socket")
        sock.sendall(said)
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(1 << 16):
            pass
        with writer(store_path, shop()) as client:
            assert client.put("users", DOCS[0]).applied == 1


def test_an_operation_that_is_none_is_refused(store_path: Path) -> None:
    with ps.open(shop(), store_path):
        connection = socket_wire.connect(str(store_path), PATIENCE)
        connection.receive(PATIENCE)
        connection.send({"do": "undo"})
        assert "no operation 'undo'" in connection.receive(PATIENCE)["failed"]["text"]
        connection.close()


def test_a_fault_of_the_holder_is_told_as_one(store_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with ps.open(shop(), store_path), writer(store_path, shop()) as client:
        with (
            mock.patch.object(ps.Engine, "take", side_effect=ZeroDivisionError("so it is")),
            pytest.raises(ps.PenstockError, match="failed at this: ZeroDivisionError: so it is"),
        ):
            client.put("users", DOCS[0])
        assert "ZeroDivisionError" in caplog.text
        assert client.put("users", DOCS[0]).applied == 1


def test_memory_is_taken_as_a_message_arrives() -> None:
    """The length of a message allocates no memory, however large the announced message is."""
    one, other = socket.socketpair()
    with one, other:
        one.sendall(struct.pack(">I", 200 << 20) + b"x" * 1_000)
        one.shutdown(socket.SHUT_WR)
        tracemalloc.start()
        try:
            with pytest.raises(socket_wire.WireClosed):
                socket_wire.Wire(other).receive(PATIENCE)
            assert tracemalloc.get_traced_memory()[1] < 8 << 20
        finally:
            tracemalloc.stop()
