"""repost, restate, check, and posts with ts 0: their output, their writes, and their exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.cache.lmdb import lmdb_databases
from penstock.cache.lmdb.lmdb_page import Pages
from penstock.cli.app_file import load
from penstock.mapreduce import emissions_db
from penstock.recovery import Mended
from tests.cli.conftest import Run
from tests.recovery.damage import add_to_lane, overwrite, tell


def damaged(*, lane: int = 0, orphan: bool = True) -> None:
    """Damage the store: the count of Joe is wrong by three, and a contribution has no document."""
    with ps.open(load("app.py"), "penstock-state") as engine:
        add_to_lane(engine, "namecount", "Joe", lane=lane, by=3)
        if orphan:
            tell(engine, "namecount", [(4_711, "Sam", None)], [])


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize(
    "command",
    [
        ["restate", "users"],
        ["restate", "users", "1"],
        ["restate", "namecount"],
        ["restate", "namecount", "Joe"],
        ["repost", "users", '{"id": 1, "name": "Sam"}'],
        ["post", '{"topic": "users(id)", "ts": 0, "id": 1, "name": "Sam"}'],
    ],
)
def test_of_a_store_that_is_right_there_is_nothing_to_say(command: list[str], filled: Path, run: Run) -> None:
    said = run(*command)
    assert (said.stdout, said.stderr) == ("", "nothing was wrong\n")


def test_restate_says_what_was_wrong(filled: Path, run: Run) -> None:
    damaged()
    said = run("restate", "namecount", "Joe")
    assert [(row["view"], row["group"], row["old"], row["new"]) for row in lines(said.stdout)][:1] == [
        ("namecount", "Joe", 5, 2)
    ]
    assert "wrong and" in said.stderr
    rows = lines(run("restate", "users").stdout)
    assert ("namecount", "Sam", 1, None) in {(row["view"], row["group"], row["old"], row["new"]) for row in rows}
    assert run("query", "by_length").stdout == '{"key": 3, "value": 3}\n'
    assert run("check").stdout == ""


@pytest.mark.parametrize("command", ["repost", "post"])
def test_an_old_value_is_posted(command: str, filled: Path, run: Run) -> None:
    damaged(orphan=True)
    old = '{"id": 2, "name": "Sam"}'
    wire = '{"topic": "users(id)", "ts": 0, "id": 2, "name": "Sam"}'
    new = '{"topic": "users(id)", "ts": 9, "id": 9, "name": "Kim"}'
    said = run("repost", "users", old) if command == "repost" else run("post", wire, new)
    found = (
        {(row["view"], row["group"]): (row["old"], row["new"]) for row in lines(said.stdout) if "view" in row}
        if command == "repost"
        else {}
    )
    if command == "repost":
        assert found["namecount", "Sam"] == (1, None)
        assert found["namecount", "Joe"] == (5, 2)
    else:
        assert '"group": "Sam"' in said.stdout
        assert said.stdout.endswith("1 applied\n")
    assert run("check").stdout == ""
    assert run("doc", "users", "2", "--raw").stdout.startswith('{"id": 2, "name": "Joe"'), "no document changes"


def test_an_old_value_comes_from_a_source(filled: Path, run: Run) -> None:
    damaged()
    Path("wire.jsonl").write_text('{"topic": "users(id)", "ts": 0, "id": 2, "name": "Sam"}\n')
    said = run("run", "--from", "users=file:wire.jsonl?envelope=topic")
    assert "1 equal" in said.stdout
    assert run("check").stdout == ""


def test_what_is_damaged_is_made_anew_and_said(filled: Path, run: Run) -> None:
    with ps.open(load("app.py"), "penstock-state") as engine:
        where = emissions_db(engine.store.core.views["initials"].number)
        with engine.snapshot() as snap:
            rows = dict(snap.reader().scan(where))
        overwrite(engine, where, {key: row[:-1] + bytes([row[-1] ^ 1]) for key, row in rows.items()})
    said = run("check", code=1)
    assert "damaged: damaged row: view 'initials', remembered emissions, log entry" in said.stderr
    assert "run `penstock restate initials`" in said.stderr
    said = run("check", "--fix")
    assert "damaged, and made anew: view 'initials', remembered emissions, log entry" in said.stderr
    assert {row["what"] for row in lines(said.stdout)} == {Mended.REMEMBERED.why}
    assert run("check").stderr.endswith("nothing is wrong\n")


def test_check_finds_and_fixes(filled: Path, run: Run) -> None:
    assert run("check").stderr.endswith("nothing is wrong\n")
    damaged()
    said = run("check", code=1)
    assert {row["group"] for row in lines(said.stdout)} >= {"Joe", "Sam"}
    assert "groups wrong" in said.stderr
    assert said.stderr.endswith("`penstock check --fix` restates what is wrong\n")
    assert "and repaired" in run("check", "--fix").stderr
    assert run("check").stderr.endswith("nothing is wrong\n")


def test_what_is_held_is_no_fault(filled: Path, run: Run) -> None:
    run("put", "users", '{"id": 4, "name": null, "ts": 1}')
    said = run("check", "-v")
    assert "held: initials: 1" in said.stderr
    assert "nothing is wrong; " in said.stderr


def test_check_needs_a_store(shop: Path, run: Run) -> None:
    assert "penstock-state" in run("check", code=2).stderr
    assert not (shop / "penstock-state").exists()


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["restate", "namecuont"], "did you mean 'namecount'?"),
        (["restate", "users", "null"], "no document of table 'users' has the key null"),
        (["restate", "namecount", '{"a": 1}'], ""),
        (["repost", "users", '{"name": "Sam"}'], "no key in field 'id': it is null"),
        (["repost", "users", "{id: 1}"], "the argument is no JSON"),
        (["repost", "usres", "{}"], "did you mean 'users'?"),
        (["post", '{"topic": "users", "ts": 0}'], "no key in field 'id': it is null"),
    ],
)
def test_what_is_wrongly_asked(command: list[str], why: str, filled: Path, run: Run) -> None:
    output = run(*command, code=2 if why else None)
    assert why in output.stderr
    assert output.stderr.count("\n") == 1
    assert output.exit_code in (2, 3)


def test_while_another_process_holds_the_store(filled: Path, run: Run) -> None:
    with ps.open(load("app.py"), "penstock-state") as engine:
        for command in (["repost", "users", '{"id": 2, "name": "Sam"}'], ["restate", "users"], ["check", "--fix"]):
            add_to_lane(engine, "namecount", "Joe", lane=0, by=3)
            said = run(*command, "-v")
            assert said.stderr.startswith("handed over to process ")
            [row] = [row for row in lines(said.stdout) if row["view"] == "namecount"]
            assert (row["group"], row["old"], row["new"]) == ("Joe", 5, 2)
        assert engine.check().wrong == ()


def test_check_names_a_damaged_page_before_it_opens_the_store(
    filled: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = filled / "penstock-state" / "data.mdb"
    with Pages(str(file.parent)) as pages:
        tree = next(tree for name, tree in pages.databases(pages.new_marks()).items() if name.startswith("view:"))
    whole = bytearray(file.read_bytes())
    whole[tree.root * pages.meta.page_size + 10] ^= 4
    file.write_bytes(whole)
    assert "has a wrong header" in run("get", "namecount", "Joe", code=None).stderr  # the store is small
    monkeypatch.setattr(lmdb_databases, "_FIRST", 0)
    said = run("check", code=1).stderr
    assert "damaged: damaged row: view 'namecount', page" in said
    assert "has a wrong header; restore the store from a copy" in said
    assert "the rest of the store was not read" in said
