"""`penstock load` with the mistakes of a new user: each gives one clear line, and loses nothing."""

from __future__ import annotations

import gzip
import json
import os
import resource
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Run
from tests.cli.loading import PENSTOCK, STORE, content, csv, digest_of, lines, users
from tests.waiting import PATIENCE


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["users", "usres.csv"], 2, "usres.csv: there is no such file; did you mean users.csv?"),
        (["users", "folder"], 2, "folder: it is a folder; name the files in it, as in folder/*.jsonl"),
        (["uesrs", "users.csv"], 2, "there is no table named 'uesrs'; did you mean 'users'?"),
        (["namecount", "users.csv"], 2, "there is no table named 'namecount'; it is a view"),
        (["users", "wrong.csv"], 3, "wrong.csv has no column 'id', the key of table 'users', but number, name"),
        (["users", "no_ts.csv"], 3, "no_ts.csv has no column 'ts', the ts of table 'users', but id, name"),
        (["users", "wrong.parquet"], 3, "wrong.parquet has no column 'id', the key of table 'users', but number"),
        (["users", "broken.gz"], 3, "broken.gz: it is no gzip file; say with --format-in what it is"),
        (["users", "cut.jsonl.gz"], 3, "cut.jsonl.gz: it is cut off after byte"),
        (["users", "array.json"], 3, "array.json: it is one JSON array and not JSON lines; write each document on"),
        (["users", "users.csv", "--format-in", "xml"], 2, "users.csv: there is no format 'xml'"),
        (["users", "users.csv", "--follow", "--format-in", "parquet"], 2, "users.csv: only a file of plain lines can"),
        (["users", "users.csv", "users.csv", "--follow"], 2, "--follow takes one file"),
        (["users", "users.csv", "missing.csv"], 2, "missing.csv: there is no such file"),
        (["users"], 2, "missing argument 'FILE...'"),
        (["users", "kafka://host/topic"], 2, "`penstock run --from TABLE=kafka://host/topic` takes other sources"),
        (["users", "file:users.csv?follow=1"], 2, "there is no option 'follow'; it takes no options"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_clear_line(shop: Path, run: Run, arguments: list[str], code: int, line: str) -> None:
    (shop / "folder").mkdir()
    (shop / "users.csv").write_bytes(csv(users(0, 3)))
    (shop / "wrong.csv").write_bytes(b"number,name\n1,Sue\n")
    (shop / "no_ts.csv").write_bytes(b"id,name\n1,Sue\n")
    pq.write_table(pa.table({"number": [1]}), shop / "wrong.parquet")
    (shop / "broken.gz").write_bytes(lines(users(0, 3)))
    (shop / "cut.jsonl.gz").write_bytes(gzip.compress(lines(users(0, 2_000)))[:-500])
    (shop / "array.json").write_text(json.dumps(users(0, 3), indent=2))
    result = run("load", *arguments, code=code)
    last = result.stderr.splitlines()[-1]
    assert line in last
    assert last.startswith("penstock")
    assert "Traceback" not in result.output
    assert not (shop / STORE).exists() or content()[0] in (0, 3) or "cut" in line


def test_what_stood_before_the_damage_is_in_and_said(shop: Path, run: Run) -> None:
    packed = gzip.compress(lines(users(0, 20_000)))
    (shop / "a.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    result = run("load", "users", "a.jsonl.gz", code=3)
    n = content()[0]
    assert n > 1_000
    assert result.stdout == f"a.jsonl.gz: {n:,} applied\n"
    (shop / "a.jsonl.gz").write_bytes(packed)
    assert run("load", "users", "a.jsonl.gz").stdout == f"a.jsonl.gz: {20_000 - n:,} applied\n"


def test_a_full_disk_is_one_clear_line_and_it_goes_on(shop: Path, run: Run) -> None:
    (shop / "a.jsonl").write_bytes(lines(users(0, 25_000)))
    command = [*PENSTOCK, "load", "users", "a.jsonl"]
    done = subprocess.run(
        command, cwd=shop, capture_output=True, text=True, timeout=PATIENCE, check=False, preexec_fn=_little_room
    )
    assert done.returncode == 3, done.stderr
    last = done.stderr.splitlines()[-1]
    assert f"{STORE} can't grow: " in last
    assert "free some space" in last
    assert "Traceback" not in done.stderr
    run("load", "users", "a.jsonl")
    assert content() == (25_000, digest_of(users(0, 25_000)))


def _little_room() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))


def test_nobody_needs_to_read_what_it_says(shop: Path) -> None:
    (shop / "a.jsonl").write_bytes(lines(users(0, 3)))
    out, into = os.pipe()
    os.close(out)
    command = [*PENSTOCK, "load", "users", "a.jsonl"]
    done = subprocess.run(
        command, cwd=shop, stdout=into, stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False
    )
    os.close(into)
    assert (done.returncode, done.stderr) == (0, "")
    assert content()[0] == 3
