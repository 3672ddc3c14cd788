"""`penstock run`: sources are read until they end or a signal comes. Progress, and several runs on one store."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.cli.commands.run import _ReadRate
from tests.cli.conftest import APP, Run
from tests.cli.loading import STORE, content
from tests.cli.running_process import ended, has_users, running, until, user
from tests.cli.terminal import Terminal
from tests.waiting import PATIENCE

ENDING = "ending: open batches are committed first; Ctrl-C again ends at once\n"
# The process that holds the store waits while it maps a user.
SLOW = """
import os


@users.view(reduce=ps.count())
def waits(user):
    if user["name"] == "Wait" and "HOLDS" in os.environ:
        open("waiting", "w").close()
        open("gate").read()
    yield user["name"]
"""


@pytest.fixture
def slow(workdir: Path) -> Path:
    """Return an app whose map can block the holder of the store."""
    (workdir / "app.py").write_text(APP + SLOW)
    return workdir


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


def test_the_batch_is_finished_and_the_second_ctrl_c_does_not_wait(slow: Path) -> None:
    os.mkfifo("gate")
    (slow / "a.jsonl").write_text(user(1) + user(2, "Wait"))
    with running("users=file:a.jsonl", cwd=slow) as child:
        until((slow / "waiting").exists, child)
        child.send_signal(signal.SIGINT)
        assert child.stderr is not None
        assert child.stderr.readline() == ENDING
        child.send_signal(signal.SIGTERM)  # a second request to stop
        (slow / "waiting").unlink()
        with open("gate", "w"):
            pass
        out, err = child.communicate(timeout=PATIENCE)
        assert (child.returncode, out, err) == (0, "users=file:a.jsonl: 2 applied\n", "")
    with running("users=file:a.jsonl?again=1", cwd=slow) as child:
        (slow / "a.jsonl").write_text(user(3) + user(4, "Wait"))
        until((slow / "waiting").exists, child)
        child.send_signal(signal.SIGINT)
        assert child.stderr is not None
        assert child.stderr.readline() == ENDING
        code, out, err = ended(child, signal.SIGINT)
        assert (code, out) == (130, "")
        assert err == "penstock: interrupted; the next run reads uncommitted records again\n"
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
    rate = _ReadRate(clock=lambda: now)
    rates = []
    for now in range(8):
        rates.append(rate.of(100 * min(int(now), 4)))
    assert rates[0] == 0.0
    assert rates[1:5] == [100.0] * 4
    assert rates[-1] == 0.0


# -- beside it


def test_a_holder_that_ends_leaves_the_store_to_the_next(slow: Path, run: Run) -> None:
    (slow / "a.jsonl").write_text(user(0))
    with running("users=file:a.jsonl?follow=1", cwd=slow) as child:
        until(has_users(1), child)
        run("put", "users", user(1))
        assert ended(child)[0] == 0
    run("put", "users", user(2))
    assert content()[0] == 3


def test_two_runs_share_a_store(slow: Path) -> None:
    (slow / "a.jsonl").write_text(user(0))
    (slow / "b.jsonl").write_text(user(1))
    with running("users=file:a.jsonl?follow=1", cwd=slow) as first:
        until(has_users(1), first)
        with running("users=file:b.jsonl?follow=1", cwd=slow) as second:
            until(has_users(2), second)
            for n, name in enumerate(["a.jsonl", "b.jsonl"] * 5, 2):
                with open(name, "a") as file:
                    file.write(user(n))
            until(has_users(12), second)
            code, out, err = ended(second)
            assert (code, out) == (0, "users=file:b.jsonl?follow=1: 6 applied\n")
            assert err.startswith(f"the store is held by process {first.pid} ")
        assert ended(first)[:2] == (0, "users=file:a.jsonl?follow=1: 6 applied\n")
