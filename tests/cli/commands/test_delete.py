"""`penstock delete --from`: keys out of files, each deleted once."""

from __future__ import annotations

import gzip
import json
import subprocess
from pathlib import Path

import pytest

import penstock as ps
from penstock.cli.app_file import load as load_app
from tests.cli.conftest import Run
from tests.cli.loading import PENSTOCK, STORE
from tests.waiting import PATIENCE


@pytest.fixture
def many(shop: Path, run: Run) -> Path:
    """Users 0 to 99, and marks with keys of two fields."""
    lines = [json.dumps({"id": i, "name": "Sue", "country": "NO", "age": i, "ts": 1}) for i in range(100)]
    (shop / "users.jsonl").write_text("\n".join(lines) + "\n")
    run("load", "users", "users.jsonl")
    run("put", "marks", *(json.dumps({"shop": "x", "number": i, "mark": i}) for i in range(9)))
    return shop


def left(table: str = "users") -> list[object]:
    with ps.open(load_app("app.py"), STORE, readonly=True) as engine, engine.snapshot() as snap:
        return sorted(row.key for row in snap.table(table).items())


def test_keys_of_a_file_of_json_lines(many: Path, run: Run) -> None:
    (many / "keys").write_text('1\n\n {"id": 2}\n{"id": 3, "name": "Sue"}\n{"$float": "4"}\n500')
    assert run("delete", "users", "--from", "keys").stdout == "keys: 4 applied, 1 equal\n"
    assert left() == [0, *range(5, 100)]
    assert run("delete", "users", "--from", "keys").stdout == "keys: 5 equal\n", "nothing is remembered of the file"


@pytest.mark.parametrize("name", ["keys.csv", "keys.csv.gz", "-"])
def test_keys_of_rows(many: Path, run: Run, name: str) -> None:
    text = "name,id\n" + "".join(f"Sue,{i}\n" for i in range(10, 100))
    (many / "keys.csv").write_text(text)
    (many / "keys.csv.gz").write_bytes(gzip.compress(text.encode()))
    more = ("--format-in", "csv") if name == "-" else ()
    command = [*PENSTOCK, "delete", "users", "--from", name, *more, "--ts", "7"]
    result = subprocess.run(command, input=text, capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert result.stdout.endswith(": 90 applied\n")
    assert left() == list(range(10))
    assert run("put", "users", '{"id": 20, "name": "Joe", "ts": 6}').stdout.startswith("1 late"), "the ts counts"


def test_the_file_of_a_load_deletes_what_it_loaded(many: Path, run: Run) -> None:
    assert run("delete", "users", "--from", "users.jsonl").stdout == "users.jsonl: 100 applied\n"
    assert left() == []
    assert "in already" in run("load", "users", "users.jsonl").stdout


def test_keys_of_several_fields(many: Path, run: Run) -> None:
    (many / "keys.jsonl").write_text('["x", 1]\n{"shop": "x", "number": 2}\n["x", 3]\n')
    (many / "more.csv").write_text("number,shop\n4,x\n5,x\n")
    said = run("delete", "marks", "--from", "keys.jsonl", "--from", "more.csv").stdout
    assert said == "keys.jsonl: 3 applied\nmore.csv: 2 applied\n2 files: 5 applied\n"
    assert left("marks") == [("x", i) for i in (0, 6, 7, 8)]


def test_lines_without_a_key_are_rejected_and_the_others_are_not(many: Path, run: Run) -> None:
    (many / "keys").write_text('Joe\n{"name": "Sue"}\n[[1], {"a": 1}]\nnull\n7\n')
    result = run("delete", "users", "--from", "keys", code=1)
    assert result.stdout == "keys: 1 applied, 4 rejected\n"
    assert "keys, line 1: it is no JSON" in result.stderr
    assert "keys, line 2: no key in field 'id': it is null" in result.stderr
    assert 7 not in left()
    assert len(left()) == 99


def test_wrong_use_is_told(many: Path, run: Run) -> None:
    for args in ((), ("7", "--from", "keys")):
        assert "give keys, or a file of keys with --from FILE" in run("delete", "users", *args, code=2).stderr
    assert "there is no such file" in run("delete", "users", "--from", "nowhere", code=2).stderr
    (many / "keys.csv").write_text("name\nSue\n")
    assert "has no column 'id'" in run("delete", "users", "--from", "keys.csv", code=3).stderr
    (many / "keys.parquet").write_bytes(b"PAR1")
    assert "keys can't be read from Parquet" in run("delete", "users", "--from", "keys.parquet", code=3).stderr
