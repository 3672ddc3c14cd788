"""Signals and mistakes of `penstock run` with connectors: the open round ends first, and nothing is lost."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import penstock as ps
from penstock.sink import SinkLog, wallaroo_sink, wallaroo_source_sink
from penstock.sink.wallaroo_source_log import MessageLog
from penstock.spout import ListeningSpout
from tests.cli.conftest import Run
from tests.cli.loading import STORE
from tests.sink.wallaroo_source import mirror
from tests.spout.wallaroo_connector import Connector
from tests.spout.wallaroo_worker import COOKIE, Store, Worker, expected, found, free_port, message, shop
from tests.waiting import PATIENCE

APP = """
import penstock as ps
app = ps.App("shop")
orders = app.table("orders", key="id")
orders.view("sums", key="name", reduce={"n": ps.count(), "sum": ps.sum("v")})
"""
SIGNALS = [signal.SIGTERM, signal.SIGINT]
LINES = [message(n).decode() + "\n" for n in range(10)]


@pytest.fixture
def orders(workdir: Path) -> Path:
    (workdir / "app.py").write_text(APP)
    (workdir / "orders.jsonl").write_text("".join(LINES))
    return workdir


@contextmanager
def signal_at(owner: type, method: str, number: int, at: int = 1) -> Iterator[None]:
    """Send a signal to this process at a counted call of a method."""
    calls, real = count(1), getattr(owner, method)

    def call(*args: Any, **kwargs: Any) -> Any:
        if next(calls) == at:
            os.kill(os.getpid(), number)
        return real(*args, **kwargs)

    with mock.patch.object(owner, method, call):
        yield


@contextmanager
def beside(work: Callable[[], None]) -> Iterator[None]:
    """Run a function in a thread, and raise its error at the end."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join(PATIENCE)
    assert not thread.is_alive()
    if errors:
        raise errors[0]


def stored(folder: Path) -> Any:
    with ps.open(shop(), folder / STORE, readonly=True) as engine:
        return found(engine)


def reached(connect: Callable[[tuple[str, int]], None], port: int) -> None:
    """Connect as soon as the process listens."""
    for _ in range(int(PATIENCE / 0.02)):
        try:
            connect(("127.0.0.1", port))
        except ConnectionRefusedError:
            threading.Event().wait(0.02)
        else:
            return
    raise AssertionError("nothing listens")


@pytest.mark.parametrize("number", SIGNALS)
def test_a_source_of_connectors(orders: Path, run: Run, number: int) -> None:
    """The signal comes between the commit of the first batch and its acknowledgement."""
    port = free_port()
    with Connector() as connector:

        def send() -> None:
            reached(connector.connect, port)
            connector.send(*((n, message(n)) for n in range(5)))
            connector.settle()
            with pytest.raises(ConnectionError, match="restart"):
                connector.listen()

        with beside(send), signal_at(ListeningSpout, "committed", number):
            said = run("run", "--from", f"orders=wallaroo+source://127.0.0.1:{port}?cookie={COOKIE}").stderr
    assert "source connectors connect to 127.0.0.1" in said
    assert connector.role.session.over
    assert stored(orders) == expected([message(n) for n in range(5)])


@pytest.mark.parametrize("number", SIGNALS)
def test_a_source_of_workers(orders: Path, run: Run, number: int) -> None:
    """The signal comes between the commit of a vote and its answer. The decision comes in the next run."""
    port = free_port()
    uri = f"orders=wallaroo://127.0.0.1:{port}?cookie={COOKIE}"
    with Worker() as worker:

        def vote() -> None:
            reached(worker.connect, port)
            worker.send(*map(message, range(5)))
            assert worker.prepare()
            worker.decide(reach=False)

        def decide() -> None:
            reached(worker.connect, port)
            worker.fence()
            os.kill(os.getpid(), number)

        # Two steps come before the vote: the state is stored anew, and then the name of the stream.
        with beside(vote), signal_at(ListeningSpout, "committed", number, 3):
            run("run", "--from", uri)
        assert stored(orders) == ({}, 0)
        with beside(decide):
            run("run", "--from", uri)
    assert stored(orders) == expected([message(n) for n in range(5)])


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("scheme", ["wallaroo", "wallaroo+source"])
def test_a_view_that_is_sent(orders: Path, run: Run, scheme: str, number: int) -> None:
    """The signal comes before the first transaction, or the first message, is durable."""
    with Store(orders / "mirror", None, 0, "&envelope=view", mirror(), scheme) as store:
        to = f"sums={scheme}://127.0.0.1:{store.address[1]}?cookie={COOKIE}"
        step = (SinkLog, "prepare") if scheme == "wallaroo" else (MessageLog, "add")
        with signal_at(*step, number):
            run("run", "--from", "orders=file:orders.jsonl?follow=1", "--to", to)
        with store.engine.snapshot() as snap:
            rows = {name: snap.table("orders").get(name)["value"]["n"] for name in ("n0", "n1", "n2")}
    assert rows == {"n0": 3, "n1": 2, "n2": 2}


def test_a_decision_that_the_sink_did_not_hear_is_reported_and_told_by_the_next_run(orders: Path, run: Run) -> None:
    port, decide = free_port(), SinkLog.decide
    words = "the sink has not confirmed the last transaction; the next run tells it again"

    def opened() -> Store:
        return Store(orders / "mirror", None, port, "&envelope=view", mirror())

    def rows(store: Store) -> dict[str, Any]:
        with store.engine.snapshot() as snap:
            return {name: doc["value"]["n"] for name in ("n0", "n1", "n2") if (doc := snap.table("orders").get(name))}

    command = "run", "--from", "orders=file:orders.jsonl", "--to", f"sums=wallaroo://127.0.0.1:{port}?cookie={COOKIE}"
    with opened() as store:

        def decide_alone(self: SinkLog, commit: bool) -> None:
            decide(self, commit)
            store.stop()

        with mock.patch.object(SinkLog, "decide", decide_alone), mock.patch.object(wallaroo_sink, "_LAST", 0.1):
            assert run(*command).stderr.count(words) == 1
        assert rows(store) == {}
    with opened() as store:
        assert words not in run(*command).stderr
        assert rows(store) == {"n0": 3, "n1": 2, "n2": 2}


def test_a_wrong_cookie_ends_the_run(orders: Path, run: Run) -> None:
    with Store(orders / "mirror", None, 0, "&envelope=view", mirror(), "wallaroo+source") as store:
        to = f"sums=wallaroo+source://127.0.0.1:{store.address[1]}?cookie=other"
        said = run("run", "--from", "orders=file:orders.jsonl?follow=1", "--to", to, code=2).stderr
    assert "the worker refused: Bad cookie; compare both configurations" in said


def test_a_worker_that_is_not_there_is_named(orders: Path, run: Run) -> None:
    to = f"sums=wallaroo+source://127.0.0.1:{free_port()}?cookie=C"
    with mock.patch.object(wallaroo_source_sink, "_LAST", 0.1):
        said = run("run", "--from", "orders=orders.jsonl", "--to", to, code=3).stderr
    assert "Connection refused; waiting for the worker" in said
    assert "bytes of view 'sums': Connection refused; the next run sends them" in said


@pytest.mark.parametrize(
    ("option", "uri", "words"),
    [
        ("--to", "sums=wallaroo+source://127.0.0.1", "write it as wallaroo+source://127.0.0.1:7100"),
        ("--to", "sums=wallaroo+source://127.0.0.1:9?name=two+words", "'two words' is no name of a connector"),
        ("--to", "sums=wallaroo+source://127.0.0.1:9?cooky=C", "there is no option 'cooky'"),
        ("--from", "orders=wallaroo+source://0.0.0.0:0", "add expose=1 behind a proxy with TLS"),
        ("--from", "orders=wallaroo+source://127.0.0.1:0?format=csv", "it is one of json, msgpack"),
    ],
)
def test_a_mistake_is_named(orders: Path, run: Run, option: str, uri: str, words: str) -> None:
    more = [] if option == "--from" else ["--from", "orders=orders.jsonl"]
    assert words in run("run", *more, option, uri, code=2).stderr


def test_a_port_in_use_is_named(orders: Path, run: Run) -> None:
    with Store(orders / "mirror", None, 0, "", mirror(), "wallaroo+source") as store:
        uri = f"orders=wallaroo+source://127.0.0.1:{store.address[1]}"
        assert "choose another port, or end its user" in run("run", "--from", uri, code=3).stderr
