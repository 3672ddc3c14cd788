"""Documents as CSV for spreadsheets."""

from __future__ import annotations

import csv as csv_module
import json
from pathlib import Path

from click import Choice, Context

from penstock.cli.program import group
from tests.cli.conftest import Run


def test_safe_csv_has_no_formula(shop: Path, run: Run) -> None:
    texts = ["=1+1", "+x", "-x", "@x", "\t=x", "\r=x", "-5", "Sue", "a=b"]
    docs = [json.dumps({"id": i, "name": text, "age": -i, "=f()": i}) for i, text in enumerate(texts)]
    (shop / "a.jsonl").write_text("\n".join(doc[:-1] + ', "ts": 1}' for doc in docs) + "\n")
    run("load", "users", "a.jsonl")
    run("export", "users", "-o", "a.csv", "--safe")
    with open("a.csv", newline="", encoding="utf-8") as file:
        head, *rows = csv_module.reader(file)
    assert head == ["id", "ts", "name", "age", "'=f()"]
    plain = [f"'{text}" for text in ("=1+1", "+x", "-x", "@x")]
    assert [row[2] for row in rows] == [*plain, '"\'\\t=x"', '"\'\\r=x"', "'-5", "Sue", "a=b"]
    assert [row[3] for row in rows] == [str(-i) for i in range(9)], "a number is no formula"
    for args in ((), ("--format", "jsonl"), ("-o", "a.parquet")):
        assert "--safe is for CSV" in run("export", "users", *args, "--safe", code=2).stderr


def test_all_csv_of_rows_can_be_safe(shop: Path, run: Run) -> None:
    docs = [json.dumps({"id": i, "name": text, "age": -i, "ts": 1}) for i, text in enumerate(("=1+1", "-x", "Sue"))]
    run("put", "users", *docs, '{"id": "=7", "name": {}, "ts": "@"}', code=None)
    assert run("query", "namecount", "--format", "csv", "--safe").stdout == "key,value\n'-x,1\n'=1+1,1\nSue,1\n"
    assert "\n=1+1,1\n" in run("query", "namecount", "--format", "csv").stdout
    assert "'=7" in run("quarantine", "--format", "csv", "--safe").stdout
    for args in ((), ("--format", "jsonl")):
        assert "--safe is for CSV" in run("query", "namecount", *args, "--safe", code=2).stderr


def test_every_command_with_csv_has_it() -> None:
    context = Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        options = {option: param for param in found.params for option in param.opts}
        if isinstance(format := getattr(options.get("--format"), "type", None), Choice) and "csv" in format.choices:
            assert "--safe" in options, name
