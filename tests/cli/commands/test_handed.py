"""Every command that writes, beside a `penstock run` that holds the store, and beside one that is killed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.cli.app_file import load as load_app
from penstock.cli.commands import copies
from penstock.cli.program import ENTRIES
from penstock.engine import memory_of_holder
from tests.cli.conftest import APP, Run
from tests.cli.loading import STORE, content
from tests.cli.running_process import ended, has_users, running, until, user
from tests.recovery.damage import add_to_lane
from tests.waiting import PATIENCE

PATIENT = """

@users.view(reduce=ps.count())
def patient(user):
    assert user["name"] != "Odd" or __import__("os").path.exists("good"), "not yet"
    yield user["name"]
"""
CHANGED = (APP + PATIENT).replace('key="name", reduce=ps.count()', 'key="country", reduce=ps.count()')
MANY = "".join(user(i) for i in range(10, 30))
SOURCE = "users=file:a.jsonl?follow=1"
RIGHT = r'"group": "Joe", "old": 5, "new": 2'


@dataclass(frozen=True)
class Work:
    """A command that writes, the operation that its holder runs for it, and its output."""

    command: Sequence[str]
    operation: str
    says: str
    again: str  # its output if all of it is done already


WORK = {
    "put": Work(["put", "users", user(9)], "take", "1 applied", "1 equal"),
    "delete": Work(["delete", "users", "1"], "take", "1 applied", "1 equal"),
    "post": Work(["post", '{"topic": "users(id)", "ts": 5, "id": 9}'], "take", "1 applied", "1 equal"),
    "post-old": Work(
        ["post", '{"topic": "users", "ts": 0, "id": 2, "name": "Z"}'], "repost_many", RIGHT, "nothing was"
    ),
    "repost": Work(["repost", "users", '{"id": 2, "name": "Z"}'], "repost_many", RIGHT, "nothing was wrong"),
    "restate": Work(["restate", "namecount"], "restate", RIGHT, "nothing was wrong"),
    "check": Work(["check", "--fix"], "check", RIGHT, "nothing is wrong"),
    "load": Work(["load", "users", "many.jsonl"], "load", "many.jsonl: 20 applied", "many.jsonl: in already"),
    "import": Work(["import", "users", "many.jsonl"], "load", "many.jsonl: 20 applied", "many.jsonl: in already"),
    "retry": Work(["quarantine", "retry", "--kind", "document"], "retry", "1 released", "nothing of that"),
    "drop": Work(["quarantine", "drop", "--kind", "record"], "drop", "1 dropped", "nothing of that"),
    "compact": Work(["compact"], "compact", "gone: [1-9] old versions", "gone: 0 old versions"),
    "run": Work(["run", "--from", "users=many.jsonl"], "load", "many.jsonl: 20 applied", "many.jsonl: no records"),
    "migrate": Work(["migrate"], "migrate_as", "2 views built|all views are as the app has them", "all views are as"),
}
NOT_HANDED = {"snapshot", "restore"}  # they need no holder
ALONE = {"repartition"}  # while nobody else holds the store
OF_SPARK = {"backfill", "verify"}  # they have tests of their own
SERVES = {"serve"}  # it has tests of its own
TOLD = {"pause", "resume"}  # they send signals and do not open the store
OF_STREAMS = {"advance"}  # test_stream_commands has its test
READ = {
    "watermarks",
    "late",
    "get",
    "query",
    "why",
    "watch",
    "doc",
    "status",
    "explain",
    "export",
    "crashtest",
    "init",
    "completion",
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a store in which each command finds work."""
    where = tmp_path_factory.mktemp("scene")
    (where / "app.py").write_text(APP + PATIENT)
    (where / "a.jsonl").write_text("")
    (where / "many.jsonl").write_text(MANY)
    path = list(sys.path)
    app = load_app(str(where / "app.py"))
    sys.path[:] = path
    sys.modules.pop("app", None)
    with ps.open(app, where / STORE) as engine:
        for ts, name in enumerate(("Sue", "Ann", "Eve", "Ada", "Sue")):
            engine.put("users", {"id": 1, "name": name, "ts": ts})
        engine.put_many("users", [user(2, "Joe"), user(3, "Joe"), user(4, "Odd"), '{"ts": 1}'])
        add_to_lane(engine, "namecount", "Joe", lane=0, by=3)
    (where / "good").write_text("")
    return where


@pytest.fixture
def scene(template: Path, workdir: Path) -> Path:
    """Return a copy of the template, as the current folder."""
    shutil.copytree(template, workdir, dirs_exist_ok=True)
    return workdir


@contextmanager
def holder(cwd: Path, *befalls: str) -> Iterator[subprocess.Popen[str]]:
    """Run `penstock run` as the holder of the store. It may be killed in the middle of an operation."""
    program = [sys.executable, "-m", *(("tests.cli.commands.holding", *befalls) if befalls else ("penstock",))]
    with running(SOURCE, cwd=cwd, program=program) as child:
        until(lambda: memory_of_holder(STORE) is not None, child)  # it answers
        yield child


def begin(name: str, cwd: Path, run: Run) -> str:
    """Prepare the app for the command. Return the expected state of the store after it."""
    if name == "migrate":
        (cwd / "app.py").write_text(CHANGED)
    if name not in _WANTED:
        shutil.copytree(STORE, "twin")
        assert re.search(WORK[name].says, run(*WORK[name].command, "--store", "twin").output)
        _WANTED[name] = content("twin")[1]
    return _WANTED[name]


_WANTED: dict[str, str] = {}


def test_these_are_all_commands_that_write() -> None:
    named = {"quarantine" if name in ("retry", "drop") else name.partition("-")[0] for name in WORK}
    assert set(ENTRIES) <= named | NOT_HANDED | ALONE | OF_SPARK | SERVES | TOLD | OF_STREAMS | READ


@pytest.mark.parametrize("name", WORK)
def test_a_command_hands_its_work_over_and_says_what_was_committed(name: str, scene: Path, run: Run) -> None:
    wanted = begin(name, scene, run)
    with holder(scene) as child:
        done = run(*WORK[name].command, "-v")
        assert re.search(WORK[name].says, done.stdout)
        assert f"process {child.pid} " in done.stderr
        assert content()[1] == wanted
        assert ended(child)[0] == 0
    assert content()[1] == wanted


@pytest.mark.parametrize("when", ["commit", "answer"])
@pytest.mark.parametrize("name", [name for name in WORK if name != "run"])
def test_its_holder_is_killed_in_the_middle(name: str, when: str, scene: Path, run: Run) -> None:
    """The holder is killed before the first commit, or after the last. The command continues with the store itself."""
    work = WORK[name]
    wanted = begin(name, scene, run)
    with holder(scene, when, work.operation) as child:
        done = run(*work.command, "-v")
        assert f"handed over to process {child.pid} " in done.stderr
        assert child.wait(PATIENCE) == -signal.SIGKILL
    assert re.search(work.says if when == "commit" else f"{work.again}|many.jsonl: 20 late", done.output)
    assert content()[1] == wanted
    assert re.search(work.again, run(*work.command).output)
    assert content()[1] == wanted


@pytest.mark.parametrize("when", ["commit", "answer"])
def test_a_source_that_is_followed_ends_with_its_holder(when: str, scene: Path, run: Run) -> None:
    """One line reports the offset, and the same command does the rest."""
    work = WORK["run"]
    wanted = begin("run", scene, run)
    with holder(scene, when, work.operation) as child:
        before = content()[1]
        failed = run(*work.command, code=3)
        assert failed.stdout == ""
        line = failed.stderr.splitlines()[-1]
        assert re.fullmatch(
            rf"penstock: process {child.pid} .*, which held the store at {STORE}, ended before it answered: "
            "what it was (given may be in or not|to do may be done, or a part of it); "
            "run this again, what is done already changes nothing",
            line,
        )
        assert child.wait(PATIENCE) == -signal.SIGKILL
    assert content()[1] == (before if when == "commit" else wanted)
    again = run(*work.command).output
    assert re.search(work.says if when == "commit" else work.again, again)
    assert content()[1] == wanted


def test_a_batch_that_ended_its_holder_is_loaded_by_the_command_itself(
    scene: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.cli.commands.load.LIMIT", 5)
    (scene / "many.jsonl").write_text("".join(user(i, "Kill" if i == 22 else "Sue") for i in range(10, 30)))
    (scene / "app.py").write_text(APP + FATAL)
    run("put", "users", user(0), "--store", "other")
    with running("users=file:a.jsonl?follow=1", cwd=scene, env={"PENSTOCK_STORE": "other"}) as child:
        until(lambda: memory_of_holder("other") is not None, child)
        assert run("load", "users", "many.jsonl", "--store", "other").stdout == "many.jsonl: 20 applied\n"
        assert child.wait(PATIENCE) == -signal.SIGKILL
    assert content("other")[0] == 21


FATAL = """

@users.view(reduce=ps.count())
def fatal(user):
    if user["name"] == "Kill" and "HOLDS" in __import__("os").environ:
        __import__("os").kill(__import__("os").getpid(), 9)
    yield user["name"]
"""


def test_a_copy_needs_no_holder_and_loses_nothing_with_it(
    scene: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with holder(scene) as child:
        before = content()
        made = copies.copy_any

        def killing(source: str, folder: str, tell: Any) -> Any:
            def told(*at: Any) -> None:
                if child.poll() is None:
                    os.kill(child.pid, signal.SIGKILL)
                    child.wait(PATIENCE)
                tell(*at)

            return made(source, folder, told)

        monkeypatch.setattr(copies, "copy_any", killing)
        refused = run("restore", "nowhere", code=2).stderr
        assert refused.startswith("penstock: nowhere has no copy of a store")
        assert run("snapshot", "backup").stdout.startswith("backup: ")
        assert child.wait(PATIENCE) == -signal.SIGKILL
    assert content("backup") == content() == before


def test_others_read_and_are_refused_what_nobody_may_do(scene: Path, run: Run) -> None:
    with holder(scene) as child:
        run("snapshot", "backup")
        assert len(run("export", "users", "-q").stdout.splitlines()) == 4
        refused = run("restore", "backup", "--force", code=3).stderr
        assert f"being written by process {child.pid} " in refused
        assert f'"owner": "process {child.pid} ' in run("status").stdout
        assert run("put", "nothing", "{}", code=2).stderr.startswith("penstock: there is no table named 'nothing'")
        beside = run("run", "--from", "users=many.jsonl")
        assert f"held by process {child.pid} " in beside.stderr
        assert has_users(24)()
        assert ended(child)[0] == 0
