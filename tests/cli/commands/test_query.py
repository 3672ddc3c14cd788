"""get, query, doc."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.cli.app_file import load
from tests.cli.conftest import Run
from tests.cli.terminal import Terminal


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def test_get(filled: Path, run: Run) -> None:
    assert run("get", "namecount", "Joe").stdout == "2\n"
    assert run("get", "ages", '["NO", "Joe"]').stdout == '{"n": 1, "mean": 30.0}\n'
    assert run("get", "by_length", "3").stdout == "3\n"


def test_a_group_that_is_not_there_is_1_and_says_how_it_was_read(filled: Path, run: Run) -> None:
    assert run("get", "namecount", "Bob", code=1).stderr == "penstock: view 'namecount' has no group \"Bob\"\n"
    assert """has no group 7 (for the text, write '"7"')""" in run("get", "namecount", "7", code=1).stderr
    assert "(it was read as text, since it is no JSON)" in run("get", "ages", '["NO"', code=1).stderr
    assert "can't be a key" in run("get", "namecount", '{"a": 1}', code=2).stderr
    assert run("get", "ages", "NO", code=1).stderr.endswith('"NO" (its groups are lists, of country, name)\n')
    assert run("why", "ages", '["NO"]', code=1).stderr.endswith('["NO"] (its groups are lists, of country, name)\n')
    assert run("get", "total", "all", code=1).stderr.endswith("(its one group is [])\n")
    assert run("get", "ages", '["NO", "Bob"]', code=1).stderr.endswith('has no group ["NO", "Bob"]\n')


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        (["get", "namecuont", "Joe"], "did you mean 'namecount'?"),
        (["query", "users"], "it is a table, and this command asks for a view"),
        (["query", "zzzzz"], "there are: namecount, ages, adults, total, initials, …"),
        (["doc", "namecount", "1"], "it is a view, and this command asks for a table"),
        (["explain", "nmaecount"], "did you mean 'namecount'?"),
        (["explain", "zzzz"], "`penstock explain` shows all"),
    ],
)
def test_wrong_names_are_2_with_the_nearest_right_one(command: list[str], hint: str, filled: Path, run: Run) -> None:
    output = run(*command, code=2).stderr
    assert output.startswith("penstock: there is no ")
    assert output.endswith(f"; {hint}\n")


def test_query_ranges(filled: Path, run: Run) -> None:
    assert lines(run("query", "namecount").stdout) == [{"key": "Joe", "value": 2}, {"key": "Sue", "value": 1}]
    assert lines(run("query", "namecount", "--prefix", "J").stdout) == [{"key": "Joe", "value": 2}]
    assert lines(run("query", "namecount", "--start", "K").stdout) == [{"key": "Sue", "value": 1}]
    assert lines(run("query", "namecount", "--stop", "K").stdout) == [{"key": "Joe", "value": 2}]
    assert lines(run("query", "namecount", "--reverse", "--limit", "1").stdout) == [{"key": "Sue", "value": 1}]
    keys = [row["key"] for row in lines(run("query", "ages", "--prefix", '["NO"]').stdout)]
    assert keys == [["NO", "Joe"], ["NO", "Sue"]]
    assert run("query", "namecount", "--prefix", "Z").stdout == ""
    assert "can't be a key" in run("query", "namecount", "--start", '{"a": 1}', code=2).stderr


def test_query_rolls_up_within_a_range(filled: Path, run: Run) -> None:
    def rolled(*args: str) -> list[Any]:
        return [(row["key"], row["value"]["n"]) for row in lines(run("query", "ages", *args).stdout)]

    assert rolled("--level", "1") == [(["NO"], 2), (["SE"], 1)]
    assert rolled("--level", "0") == [([], 3)]
    assert rolled("--level", "1", "--reverse", "--limit", "1") == [(["SE"], 1)]
    assert rolled("--level", "1", "--prefix", '["NO"]') == [(["NO"], 2)]
    assert rolled("--level", "1", "--start", '["NO", "K"]') == [(["NO"], 1), (["SE"], 1)]


def test_query_formats(filled: Path, run: Run) -> None:
    assert run("query", "ages", "--format", "csv").stdout.splitlines()[:2] == [
        "key,n,mean",
        '"[""NO"", ""Joe""]",1,30.0',
    ]
    assert json.loads(run("query", "namecount", "--format", "json").stdout)[1] == {"key": "Sue", "value": 1}
    assert run("query", "namecount", "--format", "table").stdout == "key  value\n───  ─────\nJoe      2\nSue      1\n"


def test_what_is_held_is_told_where_something_is(filled: Path, run: Run) -> None:
    run("put", "users", '{"id": 1, "name": "Sue", "country": "NO", "age": "old", "ts": 2}')
    rows = lines(run("query", "ages").stdout)
    assert [row["held"] for row in rows] == [False, True, False]
    assert [row["held"] for row in lines(run("query", "ages", "--level", "1").stdout)] == [True, False]
    assert "held" not in lines(run("query", "namecount").stdout)[0]
    said = run("get", "ages", '["NO", "Sue"]')
    assert said.stdout == '{"n": 1, "mean": 40.0}\n'
    assert said.stderr.startswith("held: it is the last good result")


def test_a_query_streams_beside_a_writer_and_shows_one_position(filled: Path, run: Run) -> None:
    with ps.open(load("app.py"), "penstock-state") as engine:
        engine.put_many("users", [{"id": i, "name": f"n{i:05}", "ts": 1} for i in range(10, 5000)])
        child = subprocess.Popen(
            [sys.executable, "-m", "penstock", "query", "namecount"], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        first = child.stdout.readline()
        engine.put_many("users", [{"id": i, "name": "later", "ts": 2} for i in range(10, 5000)])
        rest = child.stdout.read()
        child.stdout.close()
        assert child.wait() == 0
    assert first == '{"key": "Joe", "value": 2}\n'
    assert len(rest.splitlines()) == 4991
    assert "later" not in rest


PEAKS = """
import sys, tracemalloc
from penstock.cli.program import group

def peak(*command):
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    try:
        group.main(command, prog_name="penstock")
    except SystemExit as end:
        assert not end.code, command
    return tracemalloc.get_traced_memory()[1] - before

tracemalloc.start()
for command in sys.argv[1:]:
    peak(*command.split(), "--limit", "10")  # what it imports
    print(peak(*command.split()), file=sys.stderr)
"""


def test_the_memory_of_a_query_is_bounded(filled: Path) -> None:
    with ps.open(load("app.py"), "penstock-state") as engine:
        engine.put_many("users", [{"id": i, "name": f"{i:0200}", "ts": 1} for i in range(10, 15_000)])
    commands = ["query namecount", "query namecount --format csv"]
    done = subprocess.run([sys.executable, "-c", PEAKS, *commands], capture_output=True, text=True, check=True)
    assert len(done.stdout) > 2 * 3_000_000
    peaks = dict(zip(commands, map(int, done.stderr.split()), strict=True))
    assert max(peaks.values()) < 1_000_000, peaks


def test_a_reader_that_has_enough_is_no_failure(filled: Path, run: Run) -> None:
    with ps.open(load("app.py"), "penstock-state") as engine:
        engine.put_many("users", [{"id": i, "name": f"n{i:06}", "ts": 1} for i in range(10, 15_000)])
    command = [sys.executable, "-m", "penstock", "query", "namecount"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.readline()
        child.stdout.close()
        assert child.stderr.read() == b""
        assert child.wait() == 0


def test_doc_shows_what_each_view_was_told(filled: Path, run: Run) -> None:
    found = json.loads(run("doc", "users", "1").stdout)
    assert found["key"] == 1
    assert found["document"]["name"] == "Sue"
    assert {view: about["told"] for view, about in found["views"].items()} == {
        "namecount": [["Sue", None]],
        "ages": [[["NO", "Sue"], 40]],
        "adults": [["NO", None]],
        "initials": [["S", None]],
    }
    assert json.loads(run("doc", "users", "3").stdout)["views"]["adults"]["told"] == []


def test_doc_of_a_held_document_shows_what_was_told_last_and_why(filled: Path, run: Run) -> None:
    run("put", "users", '{"id": 1, "name": null, "country": "NO", "age": "old", "ts": 2}')
    views = json.loads(run("doc", "users", "1").stdout)["views"]
    assert views["ages"]["told"] == [[["NO", "Sue"], 40]]
    assert "reads 'age' as a number and finds 'old'" in views["ages"]["held"]
    assert views["initials"] == {"told": [["S", None]], "held": "TypeError: 'NoneType' object is not subscriptable"}
    assert views["namecount"] == {"told": [[None, None]]}


def test_doc_shows_the_joins_of_a_document(workdir: Path, run: Run) -> None:
    run("init")
    for table in ("orders", "customers", "products"):
        run("load", table, f"{table}.jsonl")
    bought = {"join": "bought", "how": "inner", "side": "order", "on": "order.customer = customer.id"}
    assert json.loads(run("doc", "orders", "7").stdout)["joins"] == [
        bought | {"value": 3, "matches": {"customer": 1}, "views": ["tiers"]}
    ]
    run("put", "orders", '{"id": 7, "customer": {"id": 3}, "items": [], "ts": 9000}')
    found = json.loads(run("doc", "orders", "7").stdout)["joins"]
    assert "customer" in found[0].pop("held")
    assert found == [bought | {"value": 3, "matches": {"customer": 1}, "views": ["tiers"]}]


def test_a_merged_document(shop: Path, run: Run) -> None:
    run("put", "marks", '{"shop": "NO", "number": 1, "mark": 3}')
    run("put", "marks", '{"shop": "NO", "number": 1, "note": "x"}')
    found = json.loads(run("doc", "marks", '["NO", 1]').stdout)
    assert found["document"] == {"shop": "NO", "number": 1, "mark": 3, "note": "x"}
    assert found["views"] == {"total": {"told": [[[], 3]]}}
    assert json.loads(run("doc", "marks", '["NO", 1]', "--raw").stdout) == found["document"]


def test_a_raw_document_is_as_it_came(shop: Path, run: Run) -> None:
    text = '{ "name":"Sue",  "id": 1, "ts": 1 }'
    run("put", "users", text)
    assert run("doc", "users", "1", "--raw").stdout == text + "\n"


def test_a_document_that_is_not_there(filled: Path, run: Run) -> None:
    output = run("doc", "users", "Sue", code=1).stderr
    assert output == "penstock: table 'users' has no document \"Sue\"\n"
    run("delete", "users", "1", "--ts", "7")
    assert run("doc", "users", "1", code=1).stderr.endswith(": it was deleted as of ts 7\n")
    assert "can't be a key" in run("doc", "users", "null", code=2).stderr


def test_on_a_terminal_results_are_for_people(filled: Path, run: Run) -> None:
    run("put", "users", '{"id": 1, "name": null, "country": "NO", "ts": 2}')
    with Terminal("doc", "users", "1", cwd=filled, env={"NO_COLOR": "1"}) as terminal:
        assert terminal.end() == 0
    shown = terminal.seen.splitlines()
    assert shown[0] == '{"id": 1, "name": null, "country": "NO", "ts": 2}'
    assert 'ages       ["NO", null]  null' in shown
    assert "adults     nothing" in shown
    assert "held: initials: TypeError: 'NoneType' object is not subscriptable" in shown
