"""The status of a store, once and live."""

import json
import os
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import penstock as ps
from penstock.cli.app_file import load
from tests.cli.conftest import Run
from tests.cli.terminal import Terminal


def status(run: Run, *args: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("status", *args).stdout)
    return found


def test_status_in_a_pipe_is_one_object(filled: Path, run: Run) -> None:
    run("delete", "users", "3")
    found = status(run)
    assert found["position"] == 2
    assert found["epoch"] == 2
    assert found["tables"]["users"]["documents"] == 2
    assert found["tables"]["users"]["tombstones"] == 1
    assert found["views"]["namecount"] == {
        "source": "users",
        "groups": 2,
        "held": 0,
        "resting": 0,
        "holds": [],
        "held_groups": 0,
        "memory": None,
        "as_of": None,
    }
    assert found["owner"] is None
    assert found["memory"] is None
    assert found["store"]["bytes"] > 0
    committed = datetime.fromisoformat(found["committed"])
    assert abs(committed.timestamp() - os.stat("penstock-state/data.mdb").st_mtime) < 1
    assert "digest" not in found


def test_equal_content_has_one_digest(filled: Path, run: Run) -> None:
    before = status(run, "--digest")["digest"]
    run("put", "users", '{"id": 1, "name": "Eve", "ts": 2}', "--store", "other")
    assert status(run, "--digest", "--store", "other")["digest"] != before
    with ps.open(load("app.py"), "penstock-state") as engine:
        assert engine.digest() == before


def test_who_writes_and_what_is_held(filled: Path, run: Run) -> None:
    run("put", "users", '{"id": 4, "name": null, "ts": 1}')
    with ps.open(load("app.py"), "penstock-state"):
        found = status(run)
        assert found["owner"].startswith(f"process {os.getpid()} ")
        assert found["memory"] >= found["tables"]["users"]["memory"] > 0
        assert found["views"]["namecount"]["memory"] > 0
        assert re.search(r"^memory +[1-9][\d.]* [a-zA-Z]+ in the", run("explain", "namecount").stdout, re.MULTILINE)
    [hold] = found["views"]["initials"]["holds"]
    assert (hold["documents"], hold["first"]) == (1, 4)
    assert "not subscriptable" in hold["reason"]
    [hold] = status(run, "-v")["views"]["initials"]["holds"]
    assert hold["key"] == 4
    assert "Traceback" in hold["traceback"]


def test_in_a_pipe_holds_are_counted_by_reason(filled: Path, run: Run) -> None:
    odd = [f'{{"id": {i}, "name": {"null" if i % 3 else 7}, "ts": 1}}' for i in range(4, 30)]
    run("put", "users", *odd)
    found = status(run)["views"]["initials"]
    assert found["held"] == 26
    assert [set(hold) for hold in found["holds"]] == [{"reason", "documents", "first"}] * 2
    assert sum(hold["documents"] for hold in found["holds"]) == 20, "the first ones are looked at"
    assert "traceback" not in run("status").stdout
    assert len(run("status").stdout) < 5_000 < len(run("status", "-v").stdout)


def test_sources_and_their_offsets(filled: Path, run: Run) -> None:
    with ps.open(load("app.py"), "penstock-state") as engine:
        engine.ingest([ps.Record("users", 9, {"id": 9, "name": "A", "ts": 1}, offset=4)], source="file:a", resume=5)
    assert status(run)["sources"] == {"file:a": 5}


def test_the_page_of_a_terminal(filled: Path, run: Run) -> None:
    run("put", "users", '{"id": 4, "name": null, "ts": 1}')
    with Terminal("status", "--digest", cwd=filled, env={"NO_COLOR": "1"}) as terminal:
        assert terminal.end() == 0
    shown = terminal.plain().splitlines()
    shown = shown[shown.index("app       shop") :]
    assert shown[1].startswith("store     penstock-state, ")
    assert shown[2].startswith("position  2, epoch 2, last commit 2")
    assert shown[3] == "writer    nobody"
    assert shown[4].startswith("digest    ")
    assert "users          4        0         0             2         4" in shown
    assert "namecount  users           3               0            0" in shown
    assert any(line.startswith("held: initials can't take 4: TypeError") for line in shown)


def test_watch_on_a_terminal_follows_the_writer_until_ctrl_c(filled: Path, run: Run) -> None:
    with Terminal("status", "--watch", cwd=filled) as terminal:
        place = terminal.until("position  1")
        run("put", "users", '{"id": 9, "name": "Ada", "ts": 1}')
        terminal.until("position  2", place)
        terminal.interrupt()
        assert terminal.end() == 0


def test_the_form_can_be_chosen(filled: Path, run: Run) -> None:
    page = run("status", "--format", "table").stdout
    assert page.startswith("app       shop\n")
    assert page.splitlines()[-1].startswith("by_length"), "no blank line at its end"
    with Terminal("status", "--format", "json", cwd=filled) as terminal:
        assert terminal.end() == 0
    assert json.loads(terminal.plain())["app"] == "shop"


def test_watch_and_digest_exclude_each_other(filled: Path, run: Run) -> None:
    assert "leave one out" in run("status", "--watch", "--digest", code=2).stderr
