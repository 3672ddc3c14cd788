"""`penstock quarantine`: list, show, retry and drop, in this process and through the holder of the store."""

import json
from pathlib import Path

import pytest

import penstock as ps
from tests.cli.conftest import Run
from tests.cli.terminal import Terminal

APP = """
import os
import penstock as ps

app = ps.App("shop")
users = app.table("users", key="id", ts="ts")
ages = users.view("ages", key="name", value="age", reduce=ps.sum())


class Even:
    zero = 0
    def lift(self, n):
        return n // (1 - n % 2)
    def merge(self, a, b):
        return a + b
    def unmerge(self, a, b):
        return a - b


even = users.view("even", key="name", reduce=ps.group(Even(), "n"))


@users.view(reduce=ps.count())
def initials(user):
    yield user["name"][0] if not os.path.exists("initials.txt") else user["name"][:1]
"""


@pytest.fixture
def store(workdir: Path, run: Run) -> Path:
    (workdir / "app.py").write_text(APP)
    (workdir / "users.jsonl").write_text(
        '{"id": 1, "name": "Sue", "ts": 1, "age": 4, "n": 2}\n'
        "nope\n"
        '{"id": 2, "name": "", "ts": 1, "age": "old"}\n'
        '{"id": 3, "name": "Sue", "ts": 1, "n": 3}\n'
        '{"name": "Joe", "ts": 1}\n'
    )
    run("load", "users", "users.jsonl", code=1)
    return workdir


def listed(run: Run, *args: str, code: int = 0) -> list[dict[str, object]]:
    return [json.loads(line) for line in run("quarantine", *args, code=code).stdout.splitlines()]


def test_list_names_file_line_and_reason(store: Path, run: Run) -> None:
    entries = listed(run)
    assert [(e["kind"], e["table"], e["view"], e["key"]) for e in entries] == [
        ("record", "users", None, None),
        ("record", "users", None, None),
        ("document", "users", "ages", 2),
        ("document", "users", "initials", 2),
        ("group", "users", "even", "Sue"),
    ]
    assert [e["place"] for e in entries[:2]] == ["users.jsonl, line 2", "users.jsonl, line 5"]
    assert all("users.jsonl" in str(e["source"]) for e in entries[:2])
    assert "JSON" in str(entries[0]["reason"])
    assert "IndexError" in str(entries[3]["reason"])
    assert "ZeroDivisionError" in str(entries[4]["reason"])
    assert [e["id"] for e in listed(run, "list", "--kind", "record")] == ["r0", "r1"]
    assert [e["view"] for e in listed(run, "--view", "ages")] == ["ages"]
    assert len(listed(run, "list", "--table", "users", "--limit", "3")) == 3
    assert [e["id"] for e in listed(run, "list", "r1", "r0")] == ["r0", "r1"]


def test_formats(store: Path, run: Run) -> None:
    table = run("quarantine", "--format", "table").stdout
    assert table.splitlines()[0].split()[:4] == ["id", "kind", "table", "view"]
    assert run("quarantine", "--format", "csv").stdout.startswith("id,kind,table,view,key,source,place,reason\n")
    assert len(json.loads(run("quarantine", "--format", "json").stdout)) == 5


def test_show_has_document_traceback_and_bytes(store: Path, run: Run) -> None:
    entries = {e["kind"]: e for e in listed(run, "list", "--limit", "9")}
    [record] = listed(run, "show", "r0")
    assert (record["data"], record["size"], record["document"]) == ("nope", 4, None)
    [held] = listed(run, "show", str(entries["document"]["id"]))
    assert "IndexError" in str(held["traceback"])
    assert held["document"] == {"id": 2, "name": "", "ts": 1, "age": "old"}
    assert held["told"] == []
    [group] = listed(run, "show", str(entries["group"]["id"]))
    assert (group["key"], group["result"]) == ("Sue", None) or group["key"] == "Sue"


def test_show_on_a_terminal_is_a_page(store: Path) -> None:
    with Terminal("quarantine", "show", "--view", "initials", cwd=store) as terminal:
        assert terminal.end() == 0
    said = terminal.plain()
    assert "reason    IndexError: string index out of range" in said
    assert 'document  {"id": 2, "name": "", "ts": 1, "age": "old"}' in said
    assert 'yield user["name"][0]' in said


def test_the_status_on_a_terminal_leads_here(store: Path) -> None:
    with Terminal("status", cwd=store) as terminal:
        assert terminal.end() == 0
    assert "rejected: 2 records are kept; `penstock quarantine` lists them" in terminal.plain()


def test_retry_says_what_is_left(store: Path, run: Run) -> None:
    said = run("quarantine", "retry", code=1)
    assert said.stdout == "5 left\n"
    assert said.stderr.count("left: ") == 5
    assert "left: r0: it is no JSON object" in said.stderr
    (store / "initials.txt").write_text("may be missing")
    said = run("quarantine", "retry", "--kind", "document", code=1)
    assert said.stdout == "1 released, 1 left\n"
    assert not listed(run, "list", "--view", "initials")
    assert {json.loads(line)["key"] for line in run("query", "initials").stdout.splitlines()} == {"", "S"}


def test_a_retry_that_takes_all(store: Path, run: Run) -> None:
    run("put", "users", '{"id": 3, "name": "Sue", "ts": 2, "n": 4}')
    assert not listed(run, "list", "--kind", "group")
    assert run("quarantine", "retry", "--kind", "group").stdout == "nothing of that is in quarantine\n"


def test_drop(store: Path, run: Run) -> None:
    assert run("quarantine", "drop", "--kind", "record").stdout == "2 dropped\n"
    assert run("quarantine", "drop", "--view", "initials").stdout == "1 dropped\n"
    said = run("quarantine", "drop", "--kind", "group", code=1)
    assert "a group can't be dropped" in said.stderr
    assert [e["view"] for e in listed(run)] == ["ages", "even"]
    assert [e["view"] for e in listed(run, "list", "--resting", "--kind", "document")] == ["ages", "initials"]


def test_wrong_use_is_said(store: Path, run: Run) -> None:
    assert "give IDs, or --kind, --table or --view" in run("quarantine", "drop", code=2).stderr
    assert "did you mean 'users'?" in run("quarantine", "--table", "usres", code=2).stderr
    assert "did you mean 'ages'?" in run("quarantine", "--view", "agse", code=2).stderr
    assert "'nonsense'" in run("quarantine", "nonsense", code=2).stderr
    assert "r99: it is not in quarantine" in run("quarantine", "retry", "r99", code=1).stderr
    assert "nothing of that" in run("quarantine", "show", "r99", code=1).stderr
    assert (
        "nothing of that" in run("quarantine", "list", "--table", "users", "--view", "even", "--kind", "record").stderr
    )


def test_beside_the_process_that_writes(store: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    app = ps.App("shop")
    namespace: dict[str, object] = {}
    exec(compile(APP, "app.py", "exec"), namespace)
    app = namespace["app"]  # type: ignore[assignment]
    with ps.open(app, store / "penstock-state") as engine:
        engine.put("users", b"what")
        assert "r2" in {e["id"] for e in listed(run)}
        assert run("quarantine", "drop", "r2").stdout == "1 dropped\n"
        assert "r2" not in {e.id for e in engine.quarantine()}
        assert run("quarantine", "retry", "--kind", "document", code=1).stdout == "2 left\n"
