"""put, load, watermarks, advance, late and status: streams on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run

APP = """
import penstock as ps

app = ps.App("web")
searches = app.stream("searches", ts="at", lateness="2s", ahead="7d")
counts = searches.view("counts", key=(ps.window("at", "10s"), "q"), reduce=ps.count())
kept = searches.view("kept", key=ps.window("at", "10s"), reduce=ps.count(), late="keep")
"""


@pytest.fixture
def web(workdir: Path) -> Path:
    (workdir / "app.py").write_text(APP)
    return workdir


def rows(said: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in said.stdout.splitlines()]


def test_records_are_put_and_loaded_and_the_watermark_names_its_source(web: Path, run: Run) -> None:
    assert run("put", "searches", '{"at": 5, "q": "a"}', '{"at": 12, "q": "a"}').stdout == "2 applied\n"
    (web / "more.jsonl").write_text('{"at": 20, "q": "b"}\n{"q": "b"}\n')
    said = run("load", "searches", "more.jsonl", code=1)
    assert "1 applied, 1 rejected" in said.stdout
    [own] = rows(run("watermarks"))
    assert own["watermark"] == "1970-01-01 00:00:10"
    assert own["waits for"] == "put: newest 1970-01-01 00:00:12, less lateness 2s"
    sources = {row["source"].rpartition("/")[2]: row["state"] for row in rows(run("watermarks", "searches", "--all"))}
    assert sources == {"put": "counts", "more.jsonl": "ended"}
    assert run("post", '{"topic": "searches", "at": 13, "q": "c"}').stdout == "1 applied\n"
    assert rows(run("query", "counts"))[0] == {"key": [0, "a"], "value": 1}


def test_a_statement_raises_the_watermark_and_late_records_are_listed(web: Path, run: Run) -> None:
    run("put", "searches", '{"at": 5, "q": "a"}')
    run("advance", "searches", "--to", "1970-01-01T00:01:00Z")
    assert run("put", "searches", '{"at": 7, "q": "a"}').stdout == "1 applied\n"
    [late] = rows(run("late", "kept"))
    assert late == {
        "stream": "searches",
        "source": "put",
        "offset": None,
        "ts": 7,
        "watermark": 60,
        "delay": 53.0,
        "record": {"at": 7, "q": "a"},
    }
    assert rows(run("late", "searches.kept")) == [late]
    status = json.loads(run("status").stdout)["streams"]["searches"]
    assert (status["time"], status["records"], status["late"]) == (60, 2, 1)
    assert "put: it states 1970-01-01 00:01:00" in run("status", "--format", "table").stdout


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("watermarks", "serches"), "there is no stream named 'serches'; did you mean 'searches'?"),
        (("watermarks", "--all"), "--all prints the source partitions of one stream; name it"),
        (("advance", "searches", "--to", "soon"), "give a number in s, or a text such as '2024-01-31T08:00:00Z'"),
        (("late", "counts"), "view 'counts' sets no late records aside; define it on a stream, with late='keep'"),
        (("delete", "searches", "7"), "'searches' is a stream, and a stream has no documents; put the correction"),
        (("why", "counts", '[0, "a"]'), "which stores no records, so none can be listed"),
        (("restate", "counts"), "'counts' can't be restated: the stream 'searches' stores no records"),
        (("repartition", "--to", "2"), "a store of several partitions can't take the stream 'searches'"),
    ],
)
def test_a_wrong_use_is_named_with_the_next_step(web: Path, run: Run, args: tuple[str, ...], message: str) -> None:
    run("put", "searches", '{"at": 5, "q": "a"}')
    assert message in " ".join(run(*args, code=None).stderr.split())
