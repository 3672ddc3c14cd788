"""`penstock backfill` and `penstock verify` as a user types them: their output and exit codes.

Two tests start a Spark of their own, and need pyspark and Java (`conftest.py`). The tasks of the others run in the
test.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import penstock as ps
from penstock.cli.app_file import load
from penstock.cli.commands import spark as bulk
from penstock.cli.program import group
from penstock.spark import backfill
from tests.recovery import damage
from tests.spark.inprocess import InProcess
from tests.waiting import PATIENCE

APP = """
import penstock as ps

app = ps.App("shop")
users = app.table("users", key="id", ts="ts")
names = users.view("names", key="name", reduce=ps.count())


@users.view(reduce=ps.sum())
def initials(user):
    yield user["name"][0], user["amount"]
"""


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    """Return a folder with an app and a file."""
    (tmp_path / "app.py").write_text(APP)
    docs = [{"id": i, "name": f"n{i % 5}", "amount": i, "ts": i} for i in range(100)]
    lines = [json.dumps(doc) for doc in docs] + ["no json", '{"id": 7, "name": null, "ts": 500}']
    (tmp_path / "users.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path


def penstock(workdir: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock", *args]
    return subprocess.run(command, cwd=workdir, capture_output=True, text=True, timeout=PATIENCE)


def test_a_store_is_filled_and_load_goes_on(workdir: Path) -> None:
    done = penstock(workdir, "backfill", "users=users.jsonl", "--spark", "local[1]", "--store", "state")
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines() == ["users: 100 documents", "names: 6 rows", "initials: 1 rows, 1 held"]
    assert "1 records were rejected; `penstock quarantine list` shows them" in done.stderr
    assert not [line for line in done.stderr.splitlines() if "Traceback" in line or "Warning" in line or "log" in line]
    again = penstock(workdir, "load", "users", "users.jsonl", "--store", "state")
    assert "in already" in again.stdout, again.stdout + again.stderr


def test_what_is_typed_wrongly_is_named(workdir: Path, typed: Callable[..., Result]) -> None:
    (workdir / "state").mkdir()
    (workdir / "state" / "data.mdb").touch()
    for words, why in (
        (["users=users.jsonl", "--store", "state"], "state is a store already; name a new folder with --store, or add"),
        (["users=users.jsonl", "--store", "other", "--refill"], "there is no store at"),
        (["users.jsonl", "--store", "other"], "write TABLE=PATH"),
        (["users=none.jsonl", "--store", "other"], "there is no such file"),
    ):
        wrong = typed("backfill", *words)
        assert (wrong.exit_code, wrong.stdout, wrong.stderr.count("\n")) == (2, "", 1), wrong.stderr
        assert why in wrong.stderr


@pytest.fixture
def typed(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Return a function that runs the commands and their tasks in this process."""
    monkeypatch.chdir(workdir)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(bulk, "session", lambda master: InProcess())
    return lambda *args: CliRunner().invoke(group, args, prog_name="penstock")


def test_what_differs_is_shown_and_fixed(workdir: Path, typed: Callable[..., Result]) -> None:
    app = load(os.fspath(workdir / "app.py"))
    docs = [{"id": i, "name": f"n{i % 5}", "amount": i, "ts": i} for i in range(100)]
    with ps.open(app, workdir / "state") as engine:
        engine.put_many("users", docs)
        damage.add_to_lane(engine, "names", "n1", 0, 1)
    (workdir / "users.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in [*docs, {"id": 100, "ts": 1}]))
    found = typed("verify", "--store", "state", "--against", "users=users.jsonl")
    assert found.exit_code == 1, found.stderr
    assert "the copy takes" in found.stderr.splitlines()[0]
    assert "users 100 (int): missing" in found.stderr
    assert "`penstock verify --fix` puts and restates what differs" in found.stderr
    [row] = [json.loads(line) for line in found.stdout.splitlines()]
    assert (row["view"], row["group"], row["stored"], row["expected"]) == ("names", "n1", 21, 20)
    assert set(row["documents"]) <= set(range(1, 100, 5))
    assert typed("verify", "--store", "state", "--against", "users=users.jsonl", "--fix").exit_code == 0
    with ps.open(app, workdir / "state", readonly=True) as engine, engine.snapshot() as snap:
        assert snap.view("names")["n1"] == 20
        assert 100 in snap.table("users")
    assert typed("verify", "--store", "state", "--against", "users=users.jsonl").exit_code == 0


def test_a_store_of_several_partitions_is_refilled(workdir: Path, typed: Callable[..., Result]) -> None:
    app = load(os.fspath(workdir / "app.py"))
    with ps.open(app, workdir / "state", partitions=2) as engine:
        engine.put_many("users", [{"id": 5, "name": "wrong", "ts": 1}, {"id": 5000, "name": "orphan", "ts": 1}])
        done = typed("backfill", "users=users.jsonl", "--store", "state", "--refill")
        assert (done.exit_code, done.stdout.splitlines()[0]) == (1, "users: 100 documents"), done.stderr
        assert "1 records were rejected" in done.stderr
        assert "in already" in typed("load", "users", "users.jsonl", "--store", "state").stdout
    assert typed("load", "users", "users.jsonl", "--store", "other").exit_code == 1
    digests = [ps.open(app, workdir / name, readonly=True).digest() for name in ("state", "other")]
    assert digests[0] == digests[1]
    assert typed("verify", "--store", "state").exit_code == 0


def test_sources_that_are_not_read_go_on_where_it_is_said(workdir: Path, typed: Callable[..., Result]) -> None:
    fill = ["backfill", "users=users.jsonl", "--store", "state", "-v"]
    done = typed(*fill, "--offset", "users=kafka:users/0=5150")
    assert done.exit_code == 1, done.stderr
    assert "users=kafka:users/0 goes on at 5,150" in done.stderr
    with (
        ps.open(load(os.fspath(workdir / "app.py")), workdir / "state", readonly=True) as engine,
        engine.snapshot() as snap,
    ):
        assert snap.sources["users=kafka:users/0"] == 5150
    for text in ("users=5150", "users=kafka:users/0=", "kafka"):
        wrong = typed(*fill, "--refill", "--offset", text)
        assert (wrong.exit_code, wrong.stdout) == (2, "")
        assert "names no source and offset; write it as in users=kafka:users/0=5150" in wrong.stderr


def test_killed_it_leaves_what_was_there_and_the_next_run_is_clean(spark: Any, workdir: Path) -> None:
    app = ps.App("shop")
    app.table("users", key="id", ts="ts").view("names", key="name", reduce=ps.count())
    store = workdir / "state"
    (workdir / "app.py").write_text(APP.partition("@users")[0])
    with ps.open(app, store) as engine:
        engine.put("users", {"id": 5000, "name": "before", "ts": 1})
        before = engine.digest()
    fill = ["backfill", "users=users.jsonl", "--spark", "local[1]", "--store", "state", "--refill"]
    nowhere = subprocess.DEVNULL
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock", *fill], cwd=workdir, stdout=nowhere, stderr=nowhere, start_new_session=True
    )
    waited, beside = 0, workdir / "state.refill.partial"
    while not list(beside.glob("runs-*/documents-0")) and process.poll() is None and waited < 12_000:
        waited += 1
        try:
            process.wait(0.01)
        except subprocess.TimeoutExpired:
            continue
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    with ps.open(app, store) as engine:
        assert engine.digest() == before
        engine.put("users", {"id": 5001, "name": "gone", "ts": 1})
    done = backfill(app, store, spark=spark, refill=True, users=workdir / "users.jsonl")
    assert (done.documents, done.rows) == ({"users": 100}, {"names": 6})
    assert not beside.exists()
    with ps.open(app, store, readonly=True) as engine, engine.snapshot() as snap:
        assert len(snap.table("users")) == 100
