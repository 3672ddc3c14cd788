"""`penstock backfill` and `penstock verify` as they are typed: what they say, and the codes they end with.

Each starts a Spark of its own. They need pyspark and Java (`conftest.py`).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.spark import backfill
from tests.engine import damage

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
def here(tmp_path: Path) -> Path:
    """A folder with an app and a file."""
    (tmp_path / "app.py").write_text(APP)
    docs = [{"id": i, "name": f"n{i % 5}", "amount": i, "ts": i} for i in range(100)]
    lines = [json.dumps(doc) for doc in docs] + ["no json", '{"id": 7, "name": null, "ts": 500}']
    (tmp_path / "users.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path


def penstock(here: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock", *args]
    return subprocess.run(command, cwd=here, capture_output=True, text=True, timeout=240)


def test_a_store_is_filled_and_load_goes_on(here: Path) -> None:
    done = penstock(here, "backfill", "users=users.jsonl", "--spark", "local[1]", "--store", "state")
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines() == ["users: 100 documents", "names: 6 rows", "initials: 1 rows, 1 held"]
    assert "1 records were rejected; `penstock quarantine list` shows them" in done.stderr
    assert not [line for line in done.stderr.splitlines() if "Traceback" in line or "WARN " in line or "log4j" in line]
    again = penstock(here, "load", "users", "users.jsonl", "--store", "state")
    assert "in already" in again.stdout, again.stdout + again.stderr
    twice = penstock(here, "backfill", "users=users.jsonl", "--spark", "local[1]", "--store", "state")
    assert (twice.returncode, twice.stderr.count("\n")) == (2, 1)
    assert "state is a store already; name a new folder with --store, or add --refill" in twice.stderr
    for source, why in {"users.jsonl": "write TABLE=PATH", "users=none.jsonl": "there is no such file"}.items():
        wrong = penstock(here, "backfill", source, "--store", "other")
        assert (wrong.returncode, wrong.stdout, wrong.stderr.count("\n")) == (2, "", 1)
        assert why in wrong.stderr


def test_what_differs_is_shown_and_fixed(here: Path) -> None:
    sys.path.insert(0, os.fspath(here))
    try:
        from penstock.cli.apps import load

        app = load(os.fspath(here / "app.py"))
    finally:
        sys.path.remove(os.fspath(here))
    with ps.open(app, here / "state") as engine:
        engine.put_many("users", [{"id": i, "name": f"n{i % 5}", "amount": i, "ts": i} for i in range(100)])
        damage.add_to_lane(engine, "names", "n1", 0, 1)
    found = penstock(here, "verify", "--spark", "local[1]", "--store", "state", "--fix")
    assert found.returncode == 0, found.stderr
    assert "the copy that is read takes" in found.stderr.splitlines()[0]
    [row] = [json.loads(line) for line in found.stdout.splitlines()]
    assert (row["view"], row["group"], row["stored"], row["expected"]) == ("names", "n1", 21, 20)
    with ps.open(app, here / "state", readonly=True) as engine, engine.snapshot() as snap:
        assert snap.view("names")["n1"] == 20


def test_killed_it_leaves_what_was_there_and_the_next_run_is_clean(spark: Any, here: Path) -> None:
    app = ps.App("shop")
    app.table("users", key="id", ts="ts").view("names", key="name", reduce=ps.count())
    store = here / "state"
    (here / "app.py").write_text(APP.partition("@users")[0])
    with ps.open(app, store) as engine:
        engine.put("users", {"id": 5000, "name": "before", "ts": 1})
        before = engine.digest()
    fill = ["backfill", "users=users.jsonl", "--spark", "local[1]", "--store", "state", "--refill"]
    nowhere = subprocess.DEVNULL
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock", *fill], cwd=here, stdout=nowhere, stderr=nowhere, start_new_session=True
    )
    waited, beside = 0, here / "state.refill.partial"
    while not (beside / "runs" / "documents-0").exists() and process.poll() is None and waited < 12_000:
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
    done = backfill(app, store, spark=spark, refill=True, users=here / "users.jsonl")
    assert (done.documents, done.rows) == ({"users": 100}, {"names": 6})
    assert not beside.exists()
    with ps.open(app, store, readonly=True) as engine, engine.snapshot() as snap:
        assert len(snap.table("users")) == 100
