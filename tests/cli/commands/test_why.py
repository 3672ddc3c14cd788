"""why: the documents behind a result."""

import json
from pathlib import Path
from typing import Any

import penstock as ps
from penstock.cli.app_file import load
from tests.cli.conftest import Run
from tests.cli.terminal import Terminal


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def test_what_each_document_contributes(filled: Path, run: Run) -> None:
    assert lines(run("why", "namecount", "Joe").stdout) == [{"key": 2}, {"key": 3}]
    assert lines(run("why", "ages", '["NO", "Joe"]').stdout) == [{"key": 2, "value": {"age": 30}}]
    assert lines(run("why", "initials", "J").stdout) == [
        {"key": 2, "rank": 0, "value": None},
        {"key": 3, "rank": 0, "value": None},
    ]
    assert lines(run("why", "by_length", "3").stdout) == [
        {"key": "Joe", "rank": 0, "value": 2},
        {"key": "Sue", "rank": 0, "value": 1},
    ]
    run("put", "marks", '{"shop": "NO", "number": 1, "mark": 3}')
    assert lines(run("why", "total", "[]").stdout) == [{"key": ["NO", 1], "value": 3}]


def test_with_documents(filled: Path, run: Run) -> None:
    [found] = lines(run("why", "ages", '["NO", "Sue"]', "--documents").stdout)
    assert found == {
        "key": 1,
        "value": {"age": 40},
        "document": {"id": 1, "name": "Sue", "country": "NO", "age": 40, "ts": 1},
    }
    [row] = lines(run("why", "by_length", "3", "--documents").stdout)[1:]
    assert row["document"] == ["Sue", 1]


def test_formats(filled: Path, run: Run) -> None:
    assert run("why", "ages", '["NO", "Joe"]', "--format", "csv").stdout == "key,age\n2,30\n"
    assert run("why", "namecount", "Joe", "--format", "table").stdout == "key\n───\n  2\n  3\n"
    assert json.loads(run("why", "ages", '["SE", "Joe"]', "--format", "json").stdout) == [
        {"key": 3, "value": {"age": 9}}
    ]


def test_a_group_without_a_row_is_1(filled: Path, run: Run) -> None:
    assert run("why", "namecount", "Bob", code=1).stderr == "penstock: view 'namecount' has no group \"Bob\"\n"
    assert """has no group 7 (for the text, write '"7"')""" in run("why", "namecount", "7", code=1).stderr
    assert "can't be a key" in run("why", "namecount", '{"a": 1}', code=2).stderr
    assert "did you mean 'namecount'?" in run("why", "namecuont", "Joe", code=2).stderr


def test_an_index_is_asked_by_what_documents_are_mapped_to(workdir: Path, run: Run) -> None:
    (workdir / "app.py").write_text(
        "import penstock as ps\n"
        "app = ps.App('shop')\n"
        "app.table('users', key='id').view('ages', key='name', value='age', reduce=None)\n"
    )
    run("put", "users", '{"id": 1, "name": "Sue", "age": 40}')
    assert lines(run("why", "ages", "Sue").stdout) == [{"key": 1, "value": 40}]
    assert run("why", "ages", "Joe", code=1).stderr == "penstock: view 'ages' has no group \"Joe\"\n"


def test_what_is_held_is_told(filled: Path, run: Run) -> None:
    run("put", "users", '{"id": 1, "name": "Sue", "country": "NO", "age": "old", "ts": 2}')
    assert lines(run("why", "ages", '["NO", "Sue"]').stdout) == [{"key": 1, "value": {"age": 40}, "held": True}]
    assert "held" not in lines(run("why", "ages", '["NO", "Joe"]').stdout)[0]


def test_a_result_without_documents_says_so(filled: Path, run: Run) -> None:
    engine: Any
    with ps.open(load("app.py"), "penstock-state") as engine:
        core = engine.store.core
        with core.store.write() as writer:
            writer.clear(f"log:{core.tables['users'].number}")
    output = run("why", "namecount", "Joe", code=1).stderr
    assert output == "penstock: view 'namecount' has a result for \"Joe\" and no document behind it\n"


def test_on_a_terminal_it_is_a_table_and_a_scan_shows_how_far_it_is(filled: Path, run: Run) -> None:
    with Terminal("why", "ages", '["NO", "Sue"]', "--documents", cwd=filled, env={"NO_COLOR": "1"}) as terminal:
        assert terminal.end() == 0
    shown = terminal.plain().splitlines()
    assert shown[-3].split() == ["key", "age", "document"]
    assert shown[-1] == '  1   40  {"id": 1, "name": "Sue", "country": "NO", "age": 40, "ts": 1}'
    assert "why ages" in terminal.seen


def test_it_reads_beside_a_writer(filled: Path, run: Run) -> None:
    with ps.open(load("app.py"), "penstock-state") as engine:
        engine.put("users", {"id": 9, "name": "Joe", "ts": 1})
        assert [one["key"] for one in lines(run("why", "namecount", "Joe").stdout)] == [2, 3, 9]
