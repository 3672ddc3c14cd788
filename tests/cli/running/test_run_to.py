"""`penstock run --to`: the view of a sink's reader, however often the run is killed."""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.cli.app_file import load
from penstock.core import feed_log
from tests.cli.conftest import Run
from tests.cli.loading import PENSTOCK, STORE
from tests.cli.running_process import ended, running, until, user
from tests.cli.terminal import Terminal
from tests.waiting import PATIENCE

SOURCE = "users=file:a.jsonl?follow=1"
BROUGHT = """
class Lists:
    contract = "it is all in memory"
    def __init__(self, uri, view):
        uri.only("fail")
        self.fail = uri.flag("fail")
    def begin(self):
        return None
    def write(self, changes):
        if self.fail and changes:
            raise OSError(28, "No space left on device", "lists")
        with open("given", "a") as file:
            for change in changes:
                print(change.group, change.new, file=file)
    def holds(self, position):
        with open("given", "a") as file:
            print("holds", position, file=file)
    def close(self):
        with open("given", "a") as file:
            print("closed", file=file)
"""


def rows(view: str = "namecount") -> dict[Any, Any]:
    with ps.open(load("app.py"), STORE, readonly=True) as engine, engine.snapshot() as snap:
        return dict(snap.view(view).items())


def latest(path: str) -> dict[Any, Any]:
    """Return the last value of each group in a file, without an incomplete last line."""
    out: dict[Any, Any] = {}
    with open(path, "rb") as file:
        for line in file:
            found = json.loads(line) if line.endswith(b"\n") else {}
            if "group" in found:
                out[found["group"]] = found["value"]
                if found.get("deleted"):
                    del out[found["group"]]
    return out


def has(path: str, group: str) -> Callable[[], bool]:
    return lambda: group in latest(path)


def parted(parts: int) -> None:
    ps.open(load("app.py"), STORE, partitions=parts).close()


def test_a_file_has_the_views_of_all_partitions_when_the_sources_have_ended(shop: Path, run: Run) -> None:
    """The run waits for values in flight between partitions."""
    parted(2)
    (shop / "a.jsonl").write_text("".join(user(i, f"{i % 9}" * (i % 9 + 1)) for i in range(300)))
    command = ["run", "--from", "users=a.jsonl", "--to", "namecount=out.jsonl", "--to", "by_length=lengths.jsonl"]
    run(*command)
    assert latest("out.jsonl") == rows()
    assert latest("lengths.jsonl") == rows("by_length")
    (shop / "a.jsonl").write_text("".join(user(i, f"{i % 7}", 2) for i in range(300)))
    before = (shop / "lengths.jsonl").stat().st_size
    run(*command)
    assert latest("out.jsonl") == rows()
    assert latest("lengths.jsonl") == rows("by_length") == {1: 300}
    assert (shop / "lengths.jsonl").stat().st_size > before
    run("repartition", "--to", "1")
    output = run(*command, code=3).stderr.splitlines()[-1]
    assert output.startswith("penstock: namecount=out.jsonl has all changes up to position [")
    assert "], and the store was repartitioned since, so its feed begins at position " in output
    assert output.endswith("; name an empty sink, which is given all rows first")


def test_a_second_process_waits_for_the_sink_and_goes_on_where_the_first_was_killed(shop: Path) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        (shop / name).touch()
    with running(SOURCE, sinks=["namecount=out.jsonl"], cwd=shop) as first:
        (shop / "a.jsonl").write_text(user(1, "Sue"))
        until(has("out.jsonl", "Sue"), first)
        with running("users=file:b.jsonl?follow=1", sinks=["namecount=./out.jsonl"], cwd=shop) as second:
            assert second.stderr is not None
            waits = f"namecount=./out.jsonl: process {first.pid} writes it; waiting until it ends\n"
            assert waits in (second.stderr.readline(), second.stderr.readline())
            (shop / "b.jsonl").write_text(user(2, "Joe"))
            until(has("out.jsonl", "Joe"), first)
            first.kill()
            first.wait(PATIENCE)
            with ps.open(load("app.py"), STORE) as engine:
                engine.put("users", {"id": 3, "name": "Ann", "ts": 1})
            until(has("out.jsonl", "Ann"), second)
            code, out, _ = ended(second)
    assert code == 0
    assert out.splitlines()[0] == "users=file:b.jsonl?follow=1: 1 applied"
    assert latest("out.jsonl") == rows()


def test_a_file_has_the_view_when_the_sources_have_ended(shop: Path, run: Run) -> None:
    (shop / "a.jsonl").write_text("".join(user(i, "AB"[i % 2]) for i in range(30)))
    command = ["run", "--from", "users=a.jsonl", "--to", "namecount=out.jsonl"]
    done = run(*command)
    assert done.stdout == "users=a.jsonl: 30 applied\nnamecount=out.jsonl: 2 changes\n"
    assert latest("out.jsonl") == rows() == {"A": 15, "B": 15}
    run("put", "users", user(0, "C", 2), user(1, "C", 2))
    assert run(*command).stdout.endswith("out.jsonl: 3 changes\n")
    run("delete", "users", "0", "1")
    assert run(*command, "--to", "by_length=file:b.jsonl?envelope=change").stdout.splitlines()[1:] == [
        "namecount=out.jsonl: 1 changes",
        "by_length=file:b.jsonl?envelope=change: 1 changes",
    ]
    assert latest("out.jsonl") == rows() == {"A": 14, "B": 14}
    size = (shop / "out.jsonl").stat().st_size
    assert run(*command).stdout.endswith("out.jsonl: 0 changes\n")
    assert (shop / "out.jsonl").stat().st_size == size


def test_standard_output_is_the_sinks_alone(shop: Path) -> None:
    (shop / "a.jsonl").write_text(user(1, "Sue"))
    command = [*PENSTOCK, "run", "--from", "users=a.jsonl", "--to", "namecount=-"]
    done = subprocess.run(command, cwd=shop, capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert [json.loads(line)["group"] for line in done.stdout.splitlines()] == ["Sue"]
    assert done.stderr == "users=a.jsonl: 1 applied\nnamecount=-: 1 changes\n"


@pytest.mark.parametrize(("parts", "rounds"), [(1, 4), (2, 2)])
def test_a_reader_sees_every_run_go_on_however_often_it_is_killed(shop: Path, parts: int, rounds: int) -> None:
    parted(parts)
    (shop / "a.jsonl").touch()
    expected: dict[int, str] = {}
    for round_ in range(rounds):
        with running(SOURCE, sinks=["namecount=out.jsonl"], cwd=shop) as child, open("a.jsonl", "a") as file:
            for i in range(200):
                expected[i % 50] = f"{(i + round_) % 7}"
                file.write(user(i % 50, expected[i % 50], 1 + round_ * 200 + i))
                file.flush()
            last = f"end {round_}"
            file.write(user(-1, last, 1 + round_))
            file.flush()
            if round_ % 2:
                until(has("out.jsonl", last), child)
                child.send_signal(signal.SIGTERM)
                assert child.wait(PATIENCE) == 0
                assert latest("out.jsonl") == rows()
            else:
                until(lambda: len(latest("out.jsonl")) > 3, child)
                child.send_signal(signal.SIGKILL)
                child.wait(PATIENCE)
    names = [*expected.values(), f"end {rounds - 1}"]
    assert latest("out.jsonl") == {name: names.count(name) for name in names}
    positions = [json.loads(line)["position"] for line in (shop / "out.jsonl").read_text().splitlines()]
    assert positions == sorted(positions)


def test_a_holder_elsewhere_is_no_hindrance(shop: Path, run: Run) -> None:
    (shop / "b.jsonl").write_text(user(1, "Sue"))
    with ps.open(load("app.py"), STORE) as engine:
        engine.put("users", {"id": 9, "name": "Joe", "ts": 1})
        done = run("run", "--from", "users=b.jsonl", "--to", "namecount=out.jsonl")
        assert "the store is held by process" in done.stderr
    assert latest("out.jsonl") == {"Sue": 1, "Joe": 1}


def test_a_terminal_shows_the_sink(shop: Path) -> None:
    (shop / "a.jsonl").write_text(user(1, "Sue"))
    with Terminal("run", "--from", SOURCE, "--to", "namecount=out.jsonl", cwd=shop) as terminal:
        terminal.until("namecount=out.jsonl: 1 changes")
        terminal.interrupt()
        assert terminal.end() == 0


def test_a_sink_that_the_feed_no_longer_reaches(shop: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_log, "_DROPPED", 1)
    (shop / "a.jsonl").write_text(user(1, "Sue"))
    command = ["run", "--from", "users=a.jsonl", "--to", "namecount=out.jsonl"]
    run(*command)
    before = (shop / "out.jsonl").read_bytes()
    with ps.open(load("app.py"), STORE, changes=1) as engine:
        for i in range(5):
            engine.put("users", {"id": 9, "name": f"Ada {i}", "ts": 20 + i})
    output = run(*command, code=3).stderr.splitlines()[-1]
    assert output.startswith(
        "penstock: namecount=out.jsonl has all changes up to position 1, and the feed reaches back to "
    )
    assert output.endswith(" only; name an empty sink, which is given all rows first")
    assert (shop / "out.jsonl").read_bytes() == before
    run(*command[:-1], "namecount=other.jsonl")
    assert latest("other.jsonl") == rows()


def test_a_sink_of_another_store(shop: Path, run: Run) -> None:
    (shop / "a.jsonl").write_text(user(1, "Sue"))
    command = ["run", "--from", "users=a.jsonl", "--to", "namecount=out.jsonl"]
    run(*command)
    run("put", "users", user(2, "Joe"))
    run(*command)
    output = run(*command, "--store", "other", code=3).stderr.splitlines()[-1]
    assert output.startswith(
        "penstock: namecount=out.jsonl has all changes up to position 2, and the store is at position"
    )


def test_what_was_typed_wrong(shop: Path, run: Run) -> None:
    (shop / "a.jsonl").write_text(user(1, "Sue"))
    (shop / "mine.txt").write_text("mine\n")

    def wrong(*sinks: str, code: int = 2) -> str:
        to = [argument for sink in sinks for argument in ("--to", sink)]
        return run("run", "--from", "users=a.jsonl", *to, code=code).stderr

    assert "did you mean 'namecount'?" in wrong("namecuont=o")
    assert "it is a table, and this command asks for a view" in wrong("users=o")
    assert "write --to VIEW=o" in wrong("o")
    assert "there is no sink for kafak: URIs; there are " in wrong("namecount=kafak:a")
    assert "there is no envelope 'all'; it is one of value, change" in wrong("namecount=file:o?envelope=all")
    assert "there is no option 'envelop'; the options are envelope" in wrong("namecount=file:o?envelop=change")
    assert "mine.txt: it holds something else" in wrong("namecount=mine.txt")
    assert "adults=p: it is given twice; name a sink once" in wrong("namecount=o", "ages=p", "adults=p")
    with open("q", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert "q: another process writes it; name another file" in wrong("namecount=q")
    assert "no such file or directory" in wrong("namecount=no/where")
    assert "is a directory" in wrong("namecount=.", code=3)
    assert (shop / "mine.txt").read_text() == "mine\n"
    with pytest.raises(ps.StoreMissing):
        rows()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a package with the scheme `lists`."""
    info = tmp_path / "lists_sink-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lists-sink\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[penstock.sinks]\nlists = lists_sink:Lists\n")
    (tmp_path / "lists_sink.py").write_text(BROUGHT)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()


@pytest.mark.usefixtures("package")
def test_a_package_brings_a_sink_and_is_told_what_it_holds(shop: Path, run: Run) -> None:
    (shop / "a.jsonl").write_text(user(1, "Sue") + user(2, "Joe"))
    run("run", "--from", "users=a.jsonl", "--to", "namecount=lists:")
    given = (shop / "given").read_text().splitlines()
    assert sorted(given[-4:]) == ["Joe 1", "Sue 1", "closed", "holds 1"]
    assert given[-2:] == ["holds 1", "closed"]


@pytest.mark.usefixtures("package")
def test_a_sink_that_fails_ends_all(shop: Path, run: Run) -> None:
    (shop / "a.jsonl").write_text(user(1, "Sue"))
    failed = run("run", "--from", SOURCE, "--to", "namecount=lists:?fail=1", code=3)
    assert failed.stderr.endswith("penstock: lists: no space left on device; free some space and run this again\n")
    assert rows() == {"Sue": 1}
    assert os.path.exists("given"), "it was closed"
