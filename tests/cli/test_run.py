"""`penstock run`: sources in, and every command that writes beside it, with the holder killed in the middle of each."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import penstock as ps
from penstock.cli.apps import load as load_app
from penstock.cli.run import _Rate
from tests.cli.conftest import APP, Run
from tests.cli.terminal import Terminal

STORE = "penstock-state"
PATIENCE = 60.0
_LOOK = 0.02
ENDING = "ending: what is under way is committed first; Ctrl-C again ends at once\n"
# What befalls the process that holds the store: it is killed as it maps a user, or when an operation is done.
FATAL = """
import os
import signal

from penstock.engine import operations


@users.view(reduce=ps.count())
def fatal(user):
    if user["name"] == "Kill" and "HOLDS" in os.environ:
        os.kill(os.getpid(), signal.SIGKILL)
    if user["name"] == "Wait" and "HOLDS" in os.environ:
        open("waiting", "w").close()
        open("gate").read()
    yield user["name"]


def befall(name):
    do = operations.OPERATIONS[name]

    def done(engine, asked, tell):
        do(engine, asked, tell)
        os.kill(os.getpid(), signal.SIGKILL)

    operations.OPERATIONS[name] = done


if "KILL" in os.environ:
    befall(os.environ["KILL"])
"""


def user(i: int, name: str = "Sue", ts: int = 1) -> str:
    return json.dumps({"id": i, "name": name, "ts": ts}) + "\n"


def content(store: str = STORE) -> tuple[int, str]:
    """How many users a store has, and its digest."""
    with ps.open(load_app("app.py"), store, readonly=True) as engine, engine.snapshot() as snap:
        return len(snap.table("users")), engine.digest()


def until(found: Callable[[], bool], child: subprocess.Popen[str]) -> None:
    """Look again and again while the process lives, for a while."""
    for _ in range(int(PATIENCE / _LOOK)):
        if found():
            return
        with suppress(subprocess.TimeoutExpired):
            child.wait(_LOOK)
            raise AssertionError(f"it ended: {child.communicate()}")
    raise AssertionError("nothing came of it")


def has_users(n: int) -> Callable[[], bool]:
    def found() -> bool:
        try:
            with ps.open(load_app("app.py"), STORE, readonly=True) as engine, engine.snapshot() as snap:
                return len(snap.table("users")) == n
        except ps.StoreMissing:
            return False

    return found


@pytest.fixture
def fatal(here: Path) -> Path:
    """An app that may be fatal to who holds the store."""
    (here / "app.py").write_text(APP + FATAL)
    return here


@contextmanager
def running(*sources: str, cwd: Path, env: dict[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """`penstock run` in a process of its own."""
    arguments = [argument for source in sources for argument in ("--from", source)]
    with subprocess.Popen(
        [sys.executable, "-m", "penstock", "run", *arguments],
        cwd=cwd,
        env={**os.environ, "HOLDS": "1", **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            yield child
        finally:
            child.kill()


def ended(child: subprocess.Popen[str], with_signal: int = signal.SIGTERM) -> tuple[int, str, str]:
    """Ask it to end: its code, and what it said."""
    child.send_signal(with_signal)
    out, err = child.communicate(timeout=PATIENCE)
    return child.returncode, out, err


# -- sources


def test_sources_that_end(shop: Path, run: Run) -> None:
    (shop / "a.jsonl").write_text("".join(user(i) for i in range(30)) + "no\n")
    (shop / "b.csv").write_text("shop,number,mark\nx,1,5\nx,2,7\n")
    done = run("run", "--from", "users=a.jsonl", "--from", "marks=file:b.csv")
    assert done.stdout == "users=a.jsonl: 30 applied, 1 rejected\nmarks=file:b.csv: 2 applied\n"
    assert done.stderr == "rejected: a.jsonl, line 31: it is no JSON object\n"
    assert content()[0] == 30
    again = run("run", "--from", "users=a.jsonl")
    assert again.stdout == "users=a.jsonl: no records\n"
    assert "in already" in run("load", "users", "a.jsonl").stdout


def test_many_rejections_are_counted(shop: Path, run: Run) -> None:
    (shop / "a.jsonl").write_text("no\n" * 9)
    done = run("run", "--from", "users=a.jsonl")
    assert done.stdout == "users=a.jsonl: 9 rejected\n"
    assert done.stderr.splitlines()[4:] == [
        "rejected: a.jsonl, line 5: it is no JSON object",
        "rejected: 4 more from users=a.jsonl",
    ]


def test_standard_input(shop: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "run", "--from", "users=-"],
        input=user(1) + user(2),
        cwd=shop,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    assert done.stdout == "users=-: 2 applied\n"


def test_what_was_typed_wrong(shop: Path, run: Run) -> None:
    (shop / "a.jsonl").write_text(user(1))
    assert "did you mean 'users'?" in run("run", "--from", "usres=a.jsonl", code=2).stderr
    assert "write --from TABLE=a.jsonl" in run("run", "--from", "a.jsonl", code=2).stderr
    assert "write --from TABLE=users" in run("run", "--from", "users=", code=2).stderr
    assert "no such file; did you mean a.jsonl?" in run("run", "--from", "users=b.jsonl", code=2).stderr
    assert "there is no spout for ftp: URIs" in run("run", "--from", "users=ftp:a", code=2).stderr
    assert "'folow'" in run("run", "--from", "users=file:a.jsonl?folow=1", code=2).stderr
    assert "given twice" in run("run", "--from", "users=a.jsonl", "--from", "users=a.jsonl", code=2).stderr
    assert "given twice" in run("run", "--from", "users=-", "--from", "marks=-", code=2).stderr
    assert "--from" in run("run", code=2).stderr
    assert not (shop / STORE).exists()


def test_one_that_fails_stops_all(shop: Path) -> None:
    (shop / "a.jsonl").write_text(user(1))
    (shop / "b.jsonl.gz").write_bytes(b"no gzip at all")
    with running("users=file:a.jsonl?follow=1", "users=b.jsonl.gz", cwd=shop) as child:
        out, err = child.communicate(timeout=PATIENCE)
    assert child.returncode == 3
    assert err.splitlines()[-1].startswith("penstock: b.jsonl.gz: it is no gzip file")
    assert "users=file:a.jsonl?follow=1: " in out


def test_a_file_without_the_key_is_no_source(shop: Path, run: Run) -> None:
    (shop / "a.csv").write_text("nr,name\n1,Sue\n")
    assert "a.csv has no column 'id', the key of table 'users'" in run("run", "--from", "users=a.csv", code=3).stderr


# -- it goes on until it is told to end


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_good_order(how: int, shop: Path, run: Run) -> None:
    source = "users=file:a.jsonl?follow=1"
    (shop / "a.jsonl").write_text(user(1))
    with running(source, cwd=shop) as child:
        until(has_users(1), child)
        with open("a.jsonl", "a") as file:
            file.write("".join(user(i) for i in range(2, 100)))
        until(has_users(99), child)
        code, out, err = ended(child, how)
        assert (code, out) == (0, f"{source}: 99 applied\n")
        assert err in ("", ENDING)
    assert not (shop / STORE / "socket").exists()
    with open("a.jsonl", "a") as file:
        file.write(user(100))
    with running(source, cwd=shop) as child:
        until(has_users(100), child)
        assert ended(child, how)[:2] == (0, f"{source}: 1 applied\n")
    assert run("load", "users", "a.jsonl").stdout.startswith("a.jsonl: in already")


def test_the_batch_is_finished_and_the_second_ctrl_c_does_not_wait(fatal: Path) -> None:
    os.mkfifo("gate")
    (fatal / "a.jsonl").write_text(user(1) + user(2, "Wait"))
    with running("users=file:a.jsonl", cwd=fatal) as child:
        until((fatal / "waiting").exists, child)
        child.send_signal(signal.SIGINT)
        assert child.stderr is not None
        assert child.stderr.readline() == ENDING
        child.send_signal(signal.SIGTERM)  # asks once more, in good order
        (fatal / "waiting").unlink()
        with open("gate", "w"):
            pass
        out, err = child.communicate(timeout=PATIENCE)
        assert (child.returncode, out, err) == (0, "users=file:a.jsonl: 2 applied\n", "")
    with running("users=file:a.jsonl?again=1", cwd=fatal) as child:
        (fatal / "a.jsonl").write_text(user(3) + user(4, "Wait"))
        until((fatal / "waiting").exists, child)
        child.send_signal(signal.SIGINT)
        assert child.stderr is not None
        assert child.stderr.readline() == ENDING
        code, out, err = ended(child, signal.SIGINT)
        assert (code, out) == (130, "")
        assert err == "penstock: interrupted; what was not committed is read again by the next run\n"
    assert content()[0] == 2


def test_a_terminal_shows_how_it_goes(shop: Path) -> None:
    (shop / "a.jsonl").write_text("".join(user(i) for i in range(500)) + "no\n")
    with Terminal("run", "--from", "users=file:a.jsonl?follow=1", cwd=shop) as terminal:
        terminal.until("500 applied, 1 rejected")
        terminal.until("501 records, ")
        terminal.until("Ctrl-C ends it")
        with open("a.jsonl", "a") as file:
            file.write(user(900))
        seen = terminal.until("501 applied, 1 rejected")
        terminal.interrupt()
        assert terminal.end() == 0
        assert "rejected: a.jsonl, line 501: it is no JSON object" in terminal.plain()
        assert "users=file:a.jsonl?follow=1: 501 applied, 1 rejected" in terminal.seen[seen:]


def test_quiet_shows_nothing(shop: Path) -> None:
    (shop / "a.jsonl").write_text(user(1))
    with Terminal("run", "-q", "--from", "users=a.jsonl", cwd=shop) as terminal:
        assert terminal.end() == 0
        assert terminal.plain().strip() == ""


def test_a_rate_is_of_the_last_seconds() -> None:
    now = 0.0
    rate = _Rate(clock=lambda: now)
    rates = []
    for now in range(8):
        rates.append(rate.of(100 * min(int(now), 4)))
    assert rates[0] == 0.0
    assert rates[1:5] == [100.0] * 4
    assert rates[-1] == 0.0


# -- beside it


def test_each_command_that_writes_hands_over(fatal: Path, run: Run) -> None:
    (fatal / "a.jsonl").write_text(user(0))
    (fatal / "b.jsonl").write_text("".join(user(i) for i in range(10, 20)))
    (fatal / "c.jsonl").write_text('{"$delete": 10, "$ts": 5}\n' + user(30) + user(31))
    with running("users=file:a.jsonl?follow=1", cwd=fatal) as child:
        until(has_users(1), child)
        assert run("put", "users", user(1), user(2)).stdout == "2 applied\n"
        assert f"handed over to process {child.pid} " in run("put", "users", user(1), "-v").stderr
        assert run("delete", "users", "1", "77").stdout == "1 applied, 1 equal\n"
        assert run("post", '{"topic": "users(id)", "ts": 3, "id": 3, "name": "Joe"}').stdout == "1 applied\n"
        assert run("load", "users", "b.jsonl").stdout == "b.jsonl: 10 applied\n"
        assert run("load", "users", "b.jsonl").stdout.startswith("b.jsonl: in already")
        assert run("import", "users", "c.jsonl").stdout == "c.jsonl: 3 applied\n"
        assert run("run", "--from", "marks=d.csv", code=2).stderr  # which is not there
        (fatal / "d.csv").write_text("shop,number,mark\nx,1,5\n")
        beside = run("run", "--from", "marks=d.csv")
        assert beside.stdout == "marks=d.csv: 1 applied\n"
        assert f"held by process {child.pid} " in beside.stderr
        assert run("compact").stdout.startswith("rows: ")
        assert run("snapshot", "backup").stdout.startswith("backup: ")
        assert len(run("export", "users", "-q").stdout.splitlines()) == 16
        refused = run("restore", "backup", "--force", code=3).stderr
        assert f"being written by process {child.pid} " in refused
        assert json.loads(run("status").stdout)["owner"].startswith(f"process {child.pid} ")
        assert run("put", "nothing", "{}", code=2).stderr.startswith("penstock: there is no table named 'nothing'")
        assert content() == content("backup")
        assert ended(child)[0] == 0
    assert content() == content("backup")


HANDED: dict[str, tuple[str, list[str], int]] = {
    "put": ("write", ["put", "users", user(9, "Kill")], 4),
    "post": ("write", ["post", '{"topic": "users", "ts": 1, "id": 9, "name": "Kill"}'], 4),
    "load": ("load", ["load", "users", "b.jsonl"], 4),
    "import": ("load", ["import", "users", "b.jsonl"], 4),
    "run": ("load", ["run", "--from", "users=b.jsonl"], 4),
    "delete": ("write", ["delete", "users", "1"], 2),
    "compact": ("compact", ["compact"], 3),
}


_MAPPING = [(name, False) for name in HANDED if name not in ("delete", "compact")]  # which map no user


@pytest.mark.parametrize(("name", "after"), _MAPPING + [(name, True) for name in HANDED])
def test_a_holder_that_is_killed_in_the_middle(name: str, after: bool, fatal: Path, run: Run) -> None:
    """Before the commit, or after it and before the answer: one line, 3, and the same command again does it."""
    operation, command, users = HANDED[name]
    (fatal / "a.jsonl").write_text(user(0) + user(1) + user(2))
    (fatal / "b.jsonl").write_text(user(9, "Kill" if not after else "Sue"))
    if after:
        command = [argument.replace("Kill", "Sue") for argument in command]
    env = {"KILL": operation} if after else {}
    with running("users=file:a.jsonl?follow=1", cwd=fatal, env=env) as child:
        until(has_users(3), child)
        failed = run(*command, code=3)
        lines = failed.stderr.splitlines()
        assert re.match(rf"penstock: process {child.pid} .*, ended before it answered: .*; run this again, ", lines[-1])
        assert child.wait(PATIENCE) == -signal.SIGKILL
    assert has_users(users if after else 3)()
    again = run(*command)
    assert "rejected" not in again.stdout
    assert has_users(users)()
    if after and name in ("put", "post", "delete"):
        assert again.stdout == "1 equal\n"


def test_a_holder_that_ends_leaves_the_store_to_the_next(fatal: Path, run: Run) -> None:
    (fatal / "a.jsonl").write_text(user(0))
    with running("users=file:a.jsonl?follow=1", cwd=fatal) as child:
        until(has_users(1), child)
        run("put", "users", user(1))
        assert ended(child)[0] == 0
    run("put", "users", user(2))
    assert content()[0] == 3


def test_two_runs_share_a_store(fatal: Path) -> None:
    (fatal / "a.jsonl").write_text(user(0))
    (fatal / "b.jsonl").write_text(user(1))
    with running("users=file:a.jsonl?follow=1", cwd=fatal) as first:
        until(has_users(1), first)
        with running("users=file:b.jsonl?follow=1", cwd=fatal) as second:
            until(has_users(2), second)
            for n, name in enumerate(["a.jsonl", "b.jsonl"] * 5, 2):
                with open(name, "a") as file:
                    file.write(user(n))
            until(has_users(12), second)
            code, out, err = ended(second)
            assert (code, out) == (0, "users=file:b.jsonl?follow=1: 6 applied\n")
            assert err.startswith(f"the store is held by process {first.pid} ")
        assert ended(first)[:2] == (0, "users=file:a.jsonl?follow=1: 6 applied\n")
