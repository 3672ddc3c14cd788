"""Ints of more digits than Python converts to text, in all commands: rows and messages show them without an error."""

from __future__ import annotations

from pathlib import Path

from penstock.cache import decode_json, int_to_text
from tests.cli.conftest import Run

N = 10**8_999 + 7
BIG = int_to_text(N)
APP = """
import penstock as ps

app = ps.App("digits")
t = app.table("t", key="id", ts="ts")
t.view("sums", key="g", reduce=ps.sum("v"))
t.view("fields", key="g", reduce={"n": ps.count(), "all": ps.collect(5, "v")})
t.view("index", key="g", value="v", reduce=None)

@t.view(reduce=ps.count())
def failing(doc):
    raise ValueError(doc["v"])
"""
DOCS = (
    f'{{"id": 1, "g": "a", "v": {BIG}, "ts": 1}}',
    f'{{"id": 2, "g": "a", "v": {BIG}, "ts": 1}}',
    f'{{"id": {BIG}, "g": "a", "v": 1, "ts": 1}}',
    f'{{"id": 3, "g": {BIG}, "v": 1, "ts": 1}}',
    f'{{"id": 4, "g": "a", "v": 1, "ts": {BIG}}}',
)
COMMANDS = (
    *(["get", view, group] for view in ("sums", "fields", "index") for group in ("a", BIG)),
    *(["query", "fields", "--format", format] for format in ("table", "json", "jsonl", "csv")),
    ["query", "sums", "--start", BIG],
    *(["why", view, group] for view in ("sums", "index", "failing") for group in ("a", BIG)),
    ["why", "sums", "a", "--history"],
    *(["doc", "t", key] for key in ("1", BIG)),
    *(["export", "t", "--format", format] for format in ("jsonl", "csv")),
    ["export", "t", "-o", "t.parquet"],
    ["status", "-v"],
    ["explain"],
    ["query", "sums", "--level", BIG],
    ["query", "sums", "--prefix", BIG],
    ["quarantine"],
    ["quarantine", "list", "--format", "csv"],
    ["quarantine", "show"],
    ["quarantine", "retry"],
    ["check"],
    ["restate", "sums", BIG],
    ["restate", "failing"],
    ["repost", "t", DOCS[0]],
    ["repost", "t", DOCS[2]],
    ["post", f'{{"topic": "t(id)", "id": {BIG}, "g": {BIG}, "v": {BIG}, "ts": 2}}'],
    ["load", "t", "docs.jsonl"],
    ["load", "t", "docs.csv"],
    ["delete", "t", BIG, "1"],
    ["delete", "t", "--from", "docs.jsonl"],
    ["migrate"],
    ["quarantine", "drop"],
)


def test_no_command_stumbles(run: Run, workdir: Path) -> None:
    (workdir / "app.py").write_text(APP)
    (workdir / "docs.jsonl").write_text("\n".join(DOCS) + "\n")
    (workdir / "docs.csv").write_text(f"id,g,v,ts\n7,a,{BIG},1\n{BIG},a,1,1\n8,{BIG},1,1\n")
    for doc in DOCS:
        run("put", "t", doc, code=None)
    got = run("query", "sums", "--format", "jsonl").stdout.splitlines()
    assert [int_to_text(decode_json(line)["value"])[-9:] for line in got] == ["1", "000000015"]
    for command in COMMANDS:
        result = run(*command, code=None)
        assert "Exceeds the limit" not in result.output, command[:3]
        assert "Traceback" not in result.stderr, (command, result.stderr[-1_000:])
        assert result.exit_code in (0, 1, 2, 3), (command[:3], result.exit_code, result.output[-300:])
