"""Run `penstock run` as members of a group: processes of one store that share a topic."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.cache import writer_pid
from penstock.cli.app_file import load
from tests.cli.conftest import APP
from tests.cli.loading import PENSTOCK, STORE
from tests.cli.running_process import ended, has_users, running, until
from tests.kafka.server import Row, Server


@pytest.fixture
def workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a store of two partitions."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text(APP)
    ps.open(load("app.py"), STORE, partitions=2).close()
    return tmp_path


def user(key: int) -> Row:
    return b"%d" % key, json.dumps({"id": key, "name": "Sue", "ts": 1}).encode()


def reading() -> dict[int, dict[str, Any]]:
    """Return the reported state of the members, by process."""
    done = subprocess.run([*PENSTOCK, "status"], capture_output=True, text=True, check=True)
    return {one["pid"]: one for one in json.loads(done.stdout)["reading"]}


def are(*states: str | None, of: list[int]) -> Callable[[], bool]:
    """Return a check whether processes report these states. None means that a process reports nothing."""

    def found() -> bool:
        said = reading()
        return [said[pid]["state"] if pid in said else None for pid in of] == list(states)

    return found


STANDING_BY = "standing by: no partition is dealt to this one"


def test_members_share_a_topic_and_one_holds_the_store(server: Server, client: str, workdir: Path) -> None:
    topic = server.topic(2)
    server.produce(topic, [user(i) for i in range(5)], 0)
    uri = f"users=kafka://{server.servers}/{topic}?client={client}&group=of-{topic}"
    with running(uri) as first:
        until(has_users(5), first)
        with running(uri) as second:
            until(are("reading", "reading", of=[first.pid, second.pid]), second)
            for partition in range(2):
                server.produce(topic, [user(10 * partition + i) for i in range(5, 9)], partition)
            until(has_users(13), second)
            assert [one["group"] for one in reading().values()] == [f"of-{topic}"] * 2
            with running(uri) as third:
                until(lambda: [one["state"] for one in reading().values()].count(STANDING_BY) == 1, third)
                code, out, _ = ended(third)
                assert (code, out.startswith(f"{uri}: no records")) == (0, True), "one of the three stood by"
            until(are("reading", "reading", of=[first.pid, second.pid]), second)
            second.send_signal(signal.SIGUSR1)
            until(are("reading", "paused", of=[first.pid, second.pid]), second)
            for partition in range(2):
                server.produce(topic, [user(20 + partition)], partition)
            until(has_users(14), first)
            second.send_signal(signal.SIGUSR2)
            until(has_users(15), first)
            assert writer_pid(STORE) == first.pid
            first.send_signal(signal.SIGKILL)
            first.communicate()
            for partition in range(2):
                server.produce(topic, [user(30 + partition)], partition)
            until(has_users(17), second)
            assert writer_pid(STORE) == second.pid
            code, _, err = ended(second)
    assert code == 0, err
    assert f"{uri}: the store is held by this process now" in err


def test_another_group_reports_and_waits(server: Server, workdir: Path) -> None:
    topic = server.topic(2)
    server.produce(topic, [user(0)], 0)
    uri = f"users=kafka://{server.servers}/{topic}?client=confluent"
    with running(f"{uri}&group=of-{topic}") as first:
        until(has_users(1), first)
        for other in ("&group=other", ""):
            with running(uri + other) as second:
                assert second.stderr is not None
                says = f"{uri}{other}: group of-{topic} reads it into this store; waiting until it ends\n"
                assert second.stderr.readline() == says
                assert ended(second)[:2] == (0, "")
        assert ended(first)[:2] == (0, f"{uri}&group=of-{topic}: 1 applied\n")


def test_a_second_process_waits_for_a_store_of_one_partition(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text(APP)
    ps.open(load("app.py"), STORE).close()
    topic = server.topic(2)
    server.produce(topic, [user(0)], 0)
    uri = f"users=kafka://{server.servers}/{topic}?client=confluent&group=of-{topic}"
    with running(uri) as first:
        until(has_users(1), first)
        with running(uri) as second:
            assert second.stderr is not None
            says = f"{uri}: process {first.pid} reads it into this store; waiting until it ends\n"
            assert second.stderr.readline() == says
            assert ended(first)[:2] == (0, f"{uri}: 1 applied\n")
            server.produce(topic, [user(1)], 1)
            until(has_users(2), second)
            assert ended(second)[:2] == (0, f"{uri}: 1 applied\n")
