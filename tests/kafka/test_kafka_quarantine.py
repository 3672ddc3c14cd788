"""Retry rejected records of a topic: after the app is corrected, they come from the store, without a broker."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from examples.kafka.broker import Broker
from penstock.cli.app_file import load
from tests.cli.loading import PENSTOCK
from tests.cli.running_process import running, until
from tests.kafka.server import Server

APP = """
import os
import penstock as ps

app = ps.App("shop")
users = app.table("users", key="id")


@users.view(reduce=ps.count())
def initials(user):
    yield user["name"][:1] if os.path.exists("mended") else user["name"][0]
"""
MENDED = (
    APP
    + """
orders = app.table("orders", key="number")
"""
)
WIRE: list[dict[str, Any]] = [
    {"topic": "users(id)", "id": 1, "name": "Sue"},
    {"topic": "users(id)", "id": 2, "name": ""},
    {"topic": "orders(number)", "number": 7, "item": "Å"},
    {"id": 3},
]


def penstock(store: str, *command: str, code: int = 0) -> list[str]:
    done = subprocess.run([*PENSTOCK, *command, "--store", store], capture_output=True, text=True, check=False)
    assert done.returncode == code, done
    return [*done.stdout.splitlines(), *done.stderr.splitlines()]


def held(store: str) -> int:
    with ps.open(load("app.py"), store, readonly=True) as engine:
        status = engine.status()
        return int(status["tables"]["users"]["quarantined"] + status["views"]["initials"]["held"])


def test_a_retry_needs_no_broker(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.must_be_own()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text(APP)
    clients = ("kafka-python", "confluent")
    with Broker() as broker:
        own = Server("real", broker.servers)
        topic = own.topic()
        own.produce(topic, [(None, json.dumps(record).encode()) for record in WIRE])
        for client in clients:
            ps.open(load("app.py"), client).close()
            uri = f"users=kafka://{broker.servers}/{topic}?envelope=topic&client={client}"
            with running(uri, env={"PENSTOCK_STORE": client}) as child:
                until(lambda store=client: held(store) == 3, child)
        own.close()
    (tmp_path / "app.py").write_text(MENDED)
    (tmp_path / "mended").touch()
    for client in clients:
        penstock(client, "migrate")
        output = penstock(client, "quarantine", "retry", code=1)
        assert output[0] == "1 applied, 1 released, 1 left"
        assert output[1].startswith("left: r1: it names no table")
        (left,) = map(json.loads, penstock(client, "quarantine", "show"))
        assert (left["place"], json.loads(left["data"])) == (f"{topic}-0, offset 3", WIRE[3])
        with ps.open(load("app.py"), client, readonly=True) as engine, engine.snapshot() as snap:
            assert dict(snap.table("orders").items()) == {7: {"number": 7, "item": "Å"}}
            assert sorted(dict(snap.table("users").items())) == [1, 2]
            assert dict(snap.view("initials").items()) == {"": 1, "S": 1}
