"""Run `penstock run` from a topic and into one, as a user at a terminal or as a service."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.cli.app_file import load
from tests.cli.conftest import APP
from tests.cli.loading import PENSTOCK, STORE
from tests.cli.running_process import ended, has_users, running, until
from tests.kafka.server import Row, Server
from tests.kafka.test_kafka_sink import values
from tests.waiting import PATIENCE


@pytest.fixture
def workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


def user(key: int, name: str = "Sue", ts: int = 1) -> Row:
    return b"%d" % key, json.dumps({"id": key, "name": name, "ts": ts}).encode()


def reading() -> list[dict[str, Any]]:
    done = subprocess.run([*PENSTOCK, "status"], capture_output=True, text=True, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)["reading"]
    return found


def is_reading(**about: Any) -> Callable[[], bool]:
    def found() -> bool:
        own = reading()
        return bool(own) and about.items() <= own[0].items()

    return found


def count() -> int:
    with suppress(ps.StoreMissing), ps.open(load("app.py"), STORE, readonly=True) as engine, engine.snapshot() as snap:
        return len(snap.table("users"))
    return 0


def test_a_topic_in_and_a_topic_out(server: Server, client: str, workdir: Path) -> None:
    source, sink = server.topic(2), server.topic(2, cleanup_policy="compact")
    server.produce(source, [user(i, "AB"[i % 2]) for i in range(30)], 0)
    server.produce(source, [user(i, "C") for i in range(30, 40)] + [(b"x", b"poison")], 1)
    given = f"users=kafka://{server.servers}/{source}?group=shop&client={client}"
    taken = f"namecount=kafka://{server.servers}/{sink}?client={client}"
    with running(given, sinks=[taken]) as child:
        until(has_users(40), child)
        until(is_reading(source=f"users=kafka:{source}", pid=child.pid, state="reading", lag=0), child)
        server.produce(source, [user(0, "C", 2), (b"1", None)], 0)
        until(has_users(39), child)
        code, out, err = ended(child)
    assert code == 0, err
    assert out.splitlines()[0] == f"{given}: 42 applied, 1 rejected"
    assert f"rejected: {source}-1, offset 10: it is no JSON object and no MessagePack map" in err
    assert values(server, sink) == {"A": 14, "B": 14, "C": 11}
    assert reading() == []
    with running(given, sinks=[taken]) as child:
        server.produce(source, [user(100, "A")])
        until(has_users(40), child)
        assert ended(child)[1].splitlines()[0] == f"{given}: 1 applied"
    assert values(server, sink) == {"A": 15, "B": 14, "C": 11}


def test_a_second_process_reports_and_waits(server: Server, client: str, workdir: Path) -> None:
    topic = server.topic()
    server.produce(topic, [user(0)])
    uri = f"users=kafka://{server.servers}/{topic}?client={client}"
    with running(uri) as first:
        until(has_users(1), first)
        until(is_reading(pid=first.pid), first)
        with running(uri + "&group=other") as second:
            assert second.stderr is not None
            says = f"{uri}&group=other: process {first.pid} reads it into this store; waiting until it ends\n"
            assert second.stderr.readline() == says
            server.produce(topic, [user(1)])
            until(has_users(2), second)
            first.send_signal(signal.SIGKILL if client == "confluent" else signal.SIGTERM)
            first.communicate(timeout=PATIENCE)
            server.produce(topic, [user(2)])
            until(lambda: count() == 3, second)
            assert ended(second)[:2] == (0, f"{uri}&group=other: 1 applied\n")


def test_a_second_process_takes_over_a_topic(server: Server, client: str, workdir: Path) -> None:
    """The store has two partitions. The process that writes the topic is killed."""
    ps.open(load("app.py"), STORE, partitions=2).close()
    topic = server.topic(2)
    for name in ("a.jsonl", "b.jsonl"):
        (workdir / name).touch()
    taken = f"namecount=kafka://{server.servers}/{topic}?client={client}"
    with running("users=file:a.jsonl?follow=1", sinks=[taken]) as first:
        (workdir / "a.jsonl").write_text(
            "".join(json.dumps({"id": i, "name": f"n{i % 5}", "ts": 1}) + "\n" for i in range(40))
        )
        until(lambda: sum(values(server, topic).values()) == 40, first)
        with running("users=file:b.jsonl?follow=1", sinks=[taken]) as second:
            assert second.stderr is not None
            waits = f"{taken}: process {first.pid} writes it; waiting until it ends\n"
            assert waits in (second.stderr.readline(), second.stderr.readline())
            first.kill()
            first.wait(PATIENCE)
            with ps.open(load("app.py"), STORE) as engine:
                engine.put_many("users", [{"id": i, "name": "Ann", "ts": 2} for i in range(20)])
                engine.settle()
            until(lambda: values(server, topic).get("Ann") == 20, second)
            assert ended(second)[0] == 0
    assert values(server, topic) == {**{f"n{i}": 4 for i in range(5)}, "Ann": 20}


def test_run_pauses_and_continues(server: Server, client: str, workdir: Path) -> None:
    topic = server.topic()
    server.produce(topic, [user(0)])
    uri = f"users=kafka://{server.servers}/{topic}?client={client}"
    with running(uri) as child:
        until(has_users(1), child)
        child.send_signal(signal.SIGUSR1)
        until(is_reading(state="paused"), child)
        server.produce(topic, [user(1)])
        child.send_signal(signal.SIGUSR2)
        until(has_users(2), child)
        output = subprocess.run(
            [*PENSTOCK, "pause", f"users=kafka:{topic}"], capture_output=True, text=True, check=True
        )
        assert json.loads(output.stdout) == {"source": f"users=kafka:{topic}", "process": child.pid, "state": "paused"}
        server.produce(topic, [user(2)])
        assert ended(child)[:2] == (0, f"{uri}: 2 applied, paused\n")
    assert count() == 2


def test_records_that_name_their_tables(server: Server, client: str, workdir: Path) -> None:
    topic = server.topic()
    wire = [
        {"topic": "users(id)", "id": 1, "name": "Sue", "ts": 1},
        {"topic": "marks(shop,number)", "shop": "x", "number": 1, "mark": 5},
        {"topic": "users(id)", "id": 1, "name": "Joe", "ts": 0},
        {"id": 3},
    ]
    server.produce(topic, [(None, json.dumps(one).encode()) for one in wire])
    uri = f"users=kafka://{server.servers}/{topic}?envelope=topic&client={client}"
    with running(uri) as child:
        until(has_users(1), child)
        until(is_reading(lag=0), child)
        code, out, err = ended(child)
    assert (code, out) == (0, f"{uri}: 2 applied, 1 equal, 1 rejected\n")
    assert f"rejected: {topic}-0, offset 3: it names no table" in err


def test_an_error_is_one_line(server: Server, client: str, workdir: Path) -> None:
    uri = f"users=kafka://{server.servers}/nowhere?client={client}"
    done = subprocess.run(
        [*PENSTOCK, "run", "--from", uri], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 2
    assert done.stderr == f"penstock: {uri[6:]}: there is no topic 'nowhere'; create it, or check its name\n"
