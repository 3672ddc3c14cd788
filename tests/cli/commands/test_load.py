"""`penstock load`: its input, where it continues, its output, and its exit codes."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import zstandard

import penstock as ps
from penstock.cli.app_file import load as load_app
from penstock.cli.commands import load as module
from penstock.spout import SPOUTS
from penstock.spout.files import line_splitter as spout_lines
from penstock.spout.files.streams import Unpacked
from tests.cli.commands.killed import killed_store
from tests.cli.conftest import Run
from tests.cli.loading import PENSTOCK, STORE, content, csv, digest_of, lines, parquet, rejected, users
from tests.cli.terminal import Terminal
from tests.tidy.tree import ROOT
from tests.waiting import PATIENCE


@pytest.fixture
def small() -> Any:
    """Transactions of ten records."""
    with mock.patch.object(module, "LIMIT", 10):
        yield


KINDS: dict[str, Callable[[list[dict[str, Any]]], bytes]] = {
    "users.jsonl": lines,
    "users.json": lines,
    "users": lines,
    "users.jsonl.gz": lambda docs: gzip.compress(lines(docs)),
    "users.ndjson.zst": lambda docs: zstandard.compress(lines(docs)),
    "users.csv": csv,
    "users.tsv": lambda docs: csv(docs).replace(b",", b"\t"),
    "users.csv.gz": lambda docs: gzip.compress(csv(docs)),
    "users.csv.zst": lambda docs: zstandard.compress(csv(docs)),
    "users.parquet": parquet,
}


# -- what goes in


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", KINDS)
def test_each_kind_of_file(name: str, shop: Path, run: Run) -> None:
    (shop / name).write_bytes(KINDS[name](users(0, 35)))
    assert run("load", "users", name).stdout == f"{name}: 35 applied\n"
    assert content() == (35, digest_of(users(0, 35)))
    unit, number = ("row", 35) if "parquet" in name else ("line", 36 if "sv" in name else 35)
    assert (
        run("load", "users", name).stdout
        == f"{name}: in already, to its end at {unit} {number}; --again loads it again\n"
    )
    assert run("load", "users", name, "--again").stdout == f"{name}: 35 equal\n"


def test_several_files_are_loaded_one_after_the_other(shop: Path, run: Run) -> None:
    (shop / "a.jsonl").write_bytes(lines(users(0, 5)))
    (shop / "b.csv").write_bytes(csv(users(3, 9)))
    shown = run("load", "users", "a.jsonl", "b.csv").stdout
    assert shown == "a.jsonl: 5 applied\nb.csv: 4 applied, 2 equal\n2 files: 9 applied, 2 equal\n"


@pytest.mark.parametrize("text", [b"", b"\n\n"])
def test_a_file_of_nothing_is_said_to_be_one(shop: Path, run: Run, text: bytes) -> None:
    (shop / "a.jsonl").write_bytes(text)
    assert run("load", "users", "a.jsonl").stdout == "a.jsonl: no records\n"
    assert run("load", "users", "a.jsonl").stdout.startswith("a.jsonl: in already, to its end at line ")


def test_the_format_can_be_said(shop: Path, run: Run) -> None:
    (shop / "data").write_bytes(csv(users(0, 5)).replace(b",", b";"))
    assert run("load", "users", "data", "--format-in", "csv", "--delimiter", ";").stdout == "data: 5 applied\n"


def test_a_file_may_be_written_as_a_uri(shop: Path, run: Run) -> None:
    (shop / "a b.jsonl").write_bytes(lines(users(0, 3)))
    assert run("load", "users", "file:a%20b.jsonl").stdout == "a b.jsonl: 3 applied\n"
    (shop / "data:1.jsonl").write_bytes(lines(users(0, 3)))
    assert run("load", "users", "data:1.jsonl").stdout == "data:1.jsonl: 3 equal\n"


def piped(data: bytes, *more: str, cwd: Path) -> subprocess.CompletedProcess[bytes]:
    command = [*PENSTOCK, "load", "users", "-", *more]
    return subprocess.run(command, input=data, cwd=cwd, capture_output=True, timeout=PATIENCE, check=False)


def test_standard_input_is_a_file(shop: Path) -> None:
    done = piped(lines(users(0, 3)) + b"no\n" + lines(users(3, 4))[:-1], cwd=shop)
    assert (done.returncode, done.stdout) == (1, b"standard input: 4 applied, 1 rejected\n")
    assert done.stderr == b"rejected: standard input, line 4: it is no JSON object\n"
    done = piped(gzip.compress(csv(users(0, 9))), "--format-in", "csv.gz", cwd=shop)
    assert (done.returncode, done.stdout) == (0, b"standard input: 5 applied, 4 equal\n")


def test_quiet_says_nothing_but_what_is_wrong(shop: Path, run: Run) -> None:
    (shop / "a.jsonl").write_bytes(lines(users(0, 5)) + b"no\n")
    result = run("load", "users", "a.jsonl", "-q", code=1)
    assert (result.stdout, result.stderr) == ("", "rejected: a.jsonl, line 6: it is no JSON object\n")


# -- what can't be taken


@pytest.mark.usefixtures("small")
def test_a_bad_line_is_named_by_file_and_line(shop: Path, run: Run) -> None:
    good = [json.dumps(doc) for doc in users(0, 40)]
    good[3:3] = ["", "no"]
    good[25:25] = ["[1]", '{"name": "Sue", "ts": 1}', '{"id": 1, "ts": "soon"}', '{"id": ']
    good += ["{}", "{}", "{}"]
    (shop / "a.jsonl").write_text("\n".join(good) + "\n")
    result = run("load", "users", "a.jsonl", code=1)
    assert result.stdout == "a.jsonl: 40 applied, 8 rejected\n"
    shown = result.stderr.splitlines()
    assert [line.split(": ")[1] for line in shown[:5]] == [f"a.jsonl, line {n}" for n in (5, 26, 27, 28, 29)]
    assert shown[1] == "rejected: a.jsonl, line 26: it is no JSON object"
    assert "no key in field 'id'" in shown[2]
    assert shown[5] == "rejected: and 3 more"


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv"])
def test_its_line_is_that_of_the_file_after_going_on_too(shop: Path, run: Run, name: str) -> None:
    file = shop / name
    head, made = ("", lines) if name == "a.jsonl" else ("id,name,country,age,ts\n", lambda d: csv(d).split(b"\n", 1)[1])
    file.write_bytes(head.encode() + made(users(0, 20)))
    run("load", "users", name)
    with file.open("ab") as out:
        out.write(made(users(20, 23)) + b"no\n" + made(users(23, 24)))
    result = run("load", "users", name, code=1)
    last = 20 + bool(head)
    assert f"{name} has grown: going on after line {last}\n" in result.stderr
    assert f"rejected: {name}, line {last + 4}: " in result.stderr
    assert result.stdout == f"{name}: 4 applied, 1 rejected\n"


def test_what_a_view_can_not_take_is_said(shop: Path, run: Run) -> None:
    (shop / "a.jsonl").write_bytes(lines([{"id": 1, "name": "", "ts": 1}]))
    result = run("load", "users", "a.jsonl")
    assert result.stdout == "a.jsonl: 1 applied; 1 held\n"
    assert (
        "held: a view can't accept a stored document; `penstock status` shows the view and the reason" in result.stderr
    )


def test_half_a_line_at_the_end_is_left(shop: Path, run: Run) -> None:
    file = shop / "a.jsonl"
    file.write_bytes(lines(users(0, 2)) + b'{"id": 2, "na')
    result = run("load", "users", "a.jsonl", code=1)
    assert result.stderr == "a.jsonl: it ends inside line 3, which is left for a later load\n"
    with file.open("ab") as out:
        out.write(b'me": "Joe", "country": "NO", "age": 2, "ts": 2}')
    assert run("load", "users", "a.jsonl").stdout == "a.jsonl: 1 applied\n"


# -- going on


@pytest.mark.usefixtures("small")
def test_another_file_of_the_name_is_said_to_be_one(shop: Path, run: Run) -> None:
    file = shop / "a.jsonl"
    file.write_bytes(lines(users(0, 30)))
    run("load", "users", "a.jsonl")
    file.write_bytes(lines(users(100, 115)))
    result = run("load", "users", "a.jsonl")
    assert result.stdout == "a.jsonl: 15 applied\n"
    assert result.stderr == "a.jsonl is another file than the one that was loaded before: from its first line\n"


def test_a_kill_at_any_commit_costs_nothing(shop: Path, run: Run) -> None:
    docs = users(0, 300) + [{**doc, "name": "Zoe", "ts": doc["ts"] + 1_000} for doc in users(100, 200)]
    (shop / "users.jsonl").write_bytes(lines(docs[:250]) + b"no\n" + lines(docs[250:]))
    (shop / "users.csv.gz").write_bytes(gzip.compress(csv(docs)))
    points = [(point, side) for point in (1, 2, 3, 4, 7, 12) for side in ("before", "after")]
    named = ",".join(f"{point}:{side}" for point, side in points)
    expected = (300, digest_of(docs))
    for file in ("users.jsonl", "users.csv.gz"):
        command = [sys.executable, "-m", "tests.cli.commands.killed", "40", named, "load", "users", str(shop / file)]
        store = f"{shop}/{file}"
        app = ["--app", str(shop / "app.py")]
        subprocess.run([*command, *app, "--store", store], cwd=ROOT, check=True, timeout=PATIENCE)
        begun = 0
        for where in points:
            result = run("load", "users", file, "--store", killed_store(store, *where), code=None)
            begun += "going on after line" in result.stderr
            assert "equal" not in result.stdout, "no line is loaded twice"
            assert "late" not in result.stdout
            assert content(killed_store(store, *where)) == expected
            assert rejected(killed_store(store, *where)) == (file == "users.jsonl"), "it is counted once"
            assert "in already" in run("load", "users", file, "--store", killed_store(store, *where)).stdout
        assert begun >= 6, "most of them went on in the middle"


def test_ctrl_c_ends_it_after_a_batch_and_it_goes_on(shop: Path, run: Run) -> None:
    (shop / "a.jsonl").write_bytes(lines(users(0, 100)))
    committed: list[int] = []

    def after(self: Any, batch: Any) -> None:
        committed.append(batch.resume)
        if len(committed) == 3:
            os.kill(os.getpid(), signal.SIGINT)

    with mock.patch.object(module, "LIMIT", 10), mock.patch.object(module.FileSpout, "committed", after):
        result = run("load", "users", "a.jsonl", code=130)
    assert len(committed) <= 5
    assert result.stdout == f"a.jsonl: {10 * len(committed)} applied\n"
    assert result.stderr == "interrupted; the same command goes on from here\n"
    result = run("load", "users", "a.jsonl")
    assert result.stderr == f"a.jsonl: going on after line {10 * len(committed)}\n"
    assert content() == (100, digest_of(users(0, 100)))


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_inside_a_line_of_any_length(shop: Path, run: Run, how: int) -> None:
    (shop / "a.jsonl.zst").write_bytes(zstandard.compress(lines(users(0, 3)) + bytes(400 << 20)))
    reads: list[int] = []
    read = Unpacked.read

    def counted(self: Unpacked, size: int, wait: float = 0.0) -> bytes | None:
        reads.append(size)
        if len(reads) == 30:
            os.kill(os.getpid(), how)
        return read(self, size, wait)

    with mock.patch.object(Unpacked, "read", counted), mock.patch.object(spout_lines, "_MOST_PASSED", 4 << 20):
        result = run("load", "users", "a.jsonl.zst", code=130)
    assert len(reads) < 40
    assert "interrupted; the same command goes on from here" in result.stderr
    assert content()[0] == 3


def test_texts_that_are_null_are_named_and_read_as_null(shop: Path, run: Run) -> None:
    rows = ["id,name,country,age,ts", *(f"{i},Sue,NO,{'NA' if i % 9 == 3 else i},{i}" for i in range(20))]
    (shop / "a.csv").write_text("\n".join(rows) + "\n")
    result = run("load", "users", "a.csv")
    hint = "a.csv: column 'age' has numbers, and else the text 'NA' alone; `--again --null NA` reads that as null\n"
    assert result.stderr.startswith(hint)
    result = run("load", "users", "a.csv", "--again", "--null", "NA", "--null", "NULL")
    assert (result.stdout, result.stderr) == ("a.csv: 2 applied, 18 equal\n", "")
    (shop / "b.csv").write_text(rows[0] + "\n30,Sue,NO,none,1\n")
    with ps.open(load_app("app.py"), STORE) as engine:
        spout = SPOUTS.open("file:b.csv?null=NA,none", "users")
        spout.begin(lambda source: None)
        batch = spout.next_batch(9)
        assert batch is not None
        assert [counts.applied for _, counts in engine.load("users", iter([batch]))] == [1]
        spout.close()
        with engine.snapshot() as snap:
            found = snap.table("users")
            assert [found[number]["age"] for number in (2, 3, 12, 30)] == [2, None, None, None]
    (shop / "users.jsonl").write_bytes(lines(users(0, 1)))
    (shop / "c.csv").write_text("\n".join(row.replace("NA", "\x1b[31m" + "x" * 9) for row in rows) + "\n")
    assert "has numbers" not in run("load", "users", "c.csv").stderr
    assert "only CSV has such texts" in run("load", "users", "users.jsonl", "--null", "NA", code=2).stderr


# -- following, terminals, other processes


def test_a_followed_file_is_loaded_as_it_grows(shop: Path) -> None:
    file = shop / "a.jsonl"
    file.write_bytes(lines(users(0, 3)))
    command = [*PENSTOCK, "load", "users", "a.jsonl", "--follow"]
    with subprocess.Popen(command, cwd=shop, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as follower:
        try:
            for n in (3, 5, 8):
                with file.open("ab") as out:
                    out.write(lines(users(0, n)))
                until(lambda n=n: content()[0] == n, follower)
            follower.send_signal(signal.SIGINT)
            shown, errors = follower.communicate(timeout=PATIENCE)
        finally:
            follower.kill()
    assert (follower.returncode, shown, errors) == (0, "a.jsonl: 8 applied, 11 equal\n", "")


def until(ready: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait until a command has done something, while it runs."""
    while process.poll() is None:
        try:
            if ready():
                return
        except ps.PenstockError:
            pass  # no store yet
    raise AssertionError(process.communicate())


def test_a_terminal_shows_how_far_it_is(shop: Path) -> None:
    (shop / "a.jsonl").write_bytes(lines(users(0, 60_000)))
    with Terminal("load", "users", "a.jsonl", cwd=shop) as terminal:
        terminal.until("60,000 records")
        terminal.until("60,000 applied in ")
        assert terminal.end() == 0
    assert "100%" in terminal.seen
    assert "/s\n" in terminal.seen


def test_it_works_while_another_process_holds_the_store(shop: Path) -> None:
    (shop / "a.jsonl").write_bytes(lines(users(0, 30)) + b"no\n")
    with ps.open(load_app("app.py"), STORE) as engine:
        command = [*PENSTOCK, "load", "users", "a.jsonl"]
        for code, shown in (
            (1, "a.jsonl: 30 applied, 1 rejected\n"),
            (0, "a.jsonl: in already, to its end at line 31; --again loads it again\n"),
        ):
            done = subprocess.run(command, cwd=shop, capture_output=True, text=True, timeout=PATIENCE, check=False)
            assert (done.returncode, done.stdout) == (code, shown), done.stderr
        assert engine.status()["sources"] == {f"users=file:{shop}/a.jsonl": (shop / "a.jsonl").stat().st_size}
        with engine.snapshot() as snap:
            assert len(snap.table("users")) == 30
