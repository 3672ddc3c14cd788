"""`penstock pause` and `penstock resume`: the reported states of processes that read into a store."""

from __future__ import annotations

import json
import signal
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from penstock.remote import ReaderClaim, claims, source_pauses
from tests.cli.conftest import Run
from tests.cli.loading import PENSTOCK, STORE
from tests.cli.running_process import ended, has_users, running, until, user
from tests.cli.test_shell_completion import completed
from tests.waiting import PATIENCE

A, B = ("users=file:a.jsonl?follow=1", "users=file:b.jsonl?follow=1")


def rows(done: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def states() -> dict[str, str]:
    """Return the reported state of each source, by the file's name."""
    return {one["source"].rpartition("/")[2]: one["state"] for one in claims(STORE)}


def add(name: str, *lines: str) -> None:
    with open(name, "a") as file:
        file.writelines(lines)


def test_a_file_is_paused_and_goes_on(shop: Path, run: Run) -> None:
    add("a.jsonl", user(1))
    with running(A, cwd=shop) as child:
        until(has_users(1), child)
        (paused,) = rows(run("pause"))
        assert paused == {"source": f"users=file:{shop}/a.jsonl", "process": child.pid, "state": "paused"}
        add("a.jsonl", user(2))
        run("pause", paused["source"])
        assert has_users(1)()
        (gone_on,) = rows(run("resume", paused["source"]))
        assert gone_on == {**paused, "state": "reading"}
        until(has_users(2), child)
        run("pause")
        add("a.jsonl", user(3))
        assert ended(child)[:2] == (0, f"{A}: 2 applied, paused\n")
    assert has_users(2)()


def test_a_pause_is_of_whole_processes(shop: Path, run: Run) -> None:
    """The sources of one process pause together. Other processes continue to read, also one that starts later."""
    for name in ("a.jsonl", "b.jsonl", "c.jsonl"):
        (shop / name).touch()
    (shop / "d.jsonl").write_text(user(4))
    with running(A, B, "users=d.jsonl", cwd=shop) as child, running(A.replace("a.", "c."), cwd=shop) as other:
        until(
            lambda: states() == {**dict.fromkeys(("a.jsonl", "b.jsonl", "c.jsonl"), "reading"), "d.jsonl": "ended"},
            child,
        )
        output = rows(run("pause", f"users=file:{shop}/a.jsonl"))
        assert {(one["source"][-7:], one["process"], one["state"]) for one in output} == {
            ("a.jsonl", child.pid, "paused"),
            ("b.jsonl", child.pid, "paused"),
        }
        assert states()["c.jsonl"] == "reading"
        both = rows(run("pause"))
        assert {one["process"] for one in both} == {child.pid, other.pid}
        assert {one["state"] for one in rows(run("resume"))} == {"reading"}


def test_who_is_stopped_does_not_pause(shop: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_pauses, "_PATIENCE", 0.1)
    add("a.jsonl", user(1))
    with running(A, cwd=shop) as child:
        until(has_users(1), child)
        until(lambda: states() == {"a.jsonl": "reading"}, child)
        child.send_signal(signal.SIGSTOP)
        done = run("pause", code=1)
        assert (
            done.stderr
            == f"process {child.pid} has not paused after 0.1 s: it is stopped, or busy with a large batch\n"
        )
        assert [one["state"] for one in rows(done)] == ["reading"]
        child.send_signal(signal.SIGCONT)
        until(lambda: states() == {"a.jsonl": "paused"}, child)


def test_nobody_else_is_signalled(shop: Path, run: Run) -> None:
    """A report without a lock is ignored, because its process id may belong to another process by now."""
    run("put", "users", user(1))
    place = ReaderClaim(STORE, "users=file:x")
    place.take()
    place.say("reading", None, 0)
    place.release()
    assert run("pause", code=1).stderr == (
        f"penstock: no process reads a source into the store at {STORE}; `penstock run` does\n"
    )
    bystander = subprocess.Popen([*PENSTOCK, "--version"], stdout=subprocess.DEVNULL)
    with ExitStack() as stack:
        assert source_pauses._signal(stack, STORE, bystander.pid, signal.SIGUSR1) is None
        assert bystander.wait(PATIENCE) == 0
        assert source_pauses._signal(stack, STORE, bystander.pid, signal.SIGUSR1) is None


def test_what_was_typed_wrong(shop: Path, run: Run) -> None:
    assert "there is no store at" in run("pause", code=2).stderr
    add("a.jsonl", user(1))
    with running(A, cwd=shop) as child:
        until(has_users(1), child)
        until(lambda: states() == {"a.jsonl": "reading"}, child)
        output = run("resume", "users", code=1).stderr
        assert output.startswith(f"penstock: no process reads users into the store at {STORE}; sources that are read: ")
        assert output.endswith(f": users=file:{shop}/a.jsonl\n")
        assert completed("pause", "users=") == [f"users=file:{shop}/a.jsonl"]
        assert completed("resume", "orders") == []
