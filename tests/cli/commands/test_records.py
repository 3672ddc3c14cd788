"""put, delete, post: single records."""

from pathlib import Path

import pytest

import penstock as ps
from penstock.cli.app_file import load
from tests.cli.conftest import USERS, Run


def documents(table: str) -> dict[object, object]:
    with ps.open(load("app.py"), "penstock-state", readonly=True) as engine, engine.snapshot() as snap:
        return dict(snap.table(table).items())


def position() -> int:
    with ps.open(load("app.py"), "penstock-state", readonly=True) as engine, engine.snapshot() as snap:
        return snap.position


def test_put_says_what_became_of_each(shop: Path, run: Run) -> None:
    assert run("put", "users", *USERS).stdout == "3 applied\n"
    assert position() == 1, "one transaction"
    newer = '{"id": 1, "name": "Sam", "ts": 2}'
    assert run("put", "users", newer, USERS[1], '{"id": 3, "ts": 0}').stdout == "1 applied, 1 equal, 1 late\n"
    assert documents("users")[1] == {"id": 1, "name": "Sam", "ts": 2}


def test_what_is_rejected_is_named_and_the_rest_is_in(shop: Path, run: Run) -> None:
    said = run("put", "users", USERS[0], '{"name": "?", "ts": 1}', '{"id": 2, "ts": "x"}', code=1)
    assert said.stdout == "1 applied, 2 rejected\n"
    lines = said.stderr.splitlines()
    assert lines[0] == "rejected: users, record 2: no key in field 'id': it is null"
    assert lines[1].startswith("rejected: users, record 3: ")
    assert list(documents("users")) == [1]


def test_what_a_view_cannot_take_is_said(shop: Path, run: Run) -> None:
    said = run("put", "users", '{"id": 1, "name": null, "ts": 1}')
    assert said.stdout == "1 applied; 1 held\n"
    assert "`penstock status` shows the view and the reason" in said.stderr


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"id": 1, "ts"}', "is no JSON: expecting ':' delimiter at character 15"),
        ("{id: 1}", "is no JSON: expecting property name"),
        ("[1]", "is '[1]' and no JSON object"),
        ('{"id": 1e999}', "the number 1e999 is out of range"),
    ],
)
def test_broken_json_writes_nothing(text: str, why: str, shop: Path, run: Run) -> None:
    output = run("put", "users", USERS[0], text, code=2).stderr
    assert output.startswith("penstock: argument 2 of 2 ")
    assert why in output
    assert output.count("\n") == 1
    assert not (shop / "penstock-state").exists()


def test_bytes_that_are_no_text_are_rejected(shop: Path, run: Run) -> None:
    said = run("put", "users", '{"id": 1, "name": "\udcff", "ts": 1}', code=1)
    assert "1 rejected" in said.stdout


@pytest.mark.parametrize("command", [["put", "usres", "{}"], ["delete", "Users", "1"], ["post", '{"topic": "usrs"}']])
def test_a_wrong_table_is_answered_by_the_nearest(command: list[str], shop: Path, run: Run) -> None:
    output = run(*command, code=2).stderr
    assert "there is no table named " in output
    assert output.endswith("did you mean 'users'?\n")
    assert not (shop / "penstock-state").exists()


def test_a_view_is_no_table(shop: Path, run: Run) -> None:
    output = run("put", "namecount", "{}", code=2).stderr
    assert output == (
        "penstock: there is no table named 'namecount'; it is a view, and this command asks for a table\n"
    )


def test_delete(filled: Path, run: Run) -> None:
    assert run("delete", "users", "1", "9").stdout == "1 applied, 1 equal\n"
    assert run("delete", "users", "2", "--ts", "0").stdout == "1 late\n"
    assert run("delete", "users", "2", "--ts", "5").stdout == "1 applied\n"
    assert list(documents("users")) == [3]
    assert run("put", "users", USERS[1]).stdout == "1 late\n"


def test_delete_by_a_key_of_several_fields_and_of_text(shop: Path, run: Run) -> None:
    run("put", "marks", '{"shop": "NO", "number": 1, "mark": 3}', '{"shop": "NO", "number": "1", "mark": 4}')
    run("delete", "marks", '["NO", 1]')
    assert list(documents("marks")) == [("NO", "1")]


def test_a_key_or_ts_of_a_wrong_kind(filled: Path, run: Run) -> None:
    assert "rejected: users, record 1: " in run("delete", "users", '{"a": 1}', code=1).stderr
    assert "--ts is [1]; write a number, or a time" in run("delete", "users", "1", "--ts", "[1]", code=2).stderr
    assert run("delete", "users", "1", "--ts", "yesterday", code=1).stdout == "1 rejected\n"


def test_post_takes_the_wire_form(filled: Path, run: Run) -> None:
    wire = '{"topic": "users(id)", "ts": 5, "id": 1, "name": "Sam"}'
    mark = '{"topic": "marks(shop, number)", "ts": 5, "shop": "NO", "number": 1, "mark": 2}'
    assert run("post", wire, mark).stdout == "2 applied\n"
    assert documents("users")[1] == {"ts": 5, "id": 1, "name": "Sam"}
    assert documents("marks") == {("NO", 1): {"shop": "NO", "number": 1, "mark": 2}}
    assert run("post", '{"topic": "users", "ts": 4, "id": 1, "name": "Eve"}').stdout == "1 late\n"
    assert position() == 2


def test_post_to_a_table_by_the_brokers_ts(workdir: Path, run: Run) -> None:
    (workdir / "app.py").write_text(
        'import penstock as ps\napp = ps.App("a")\napp.table("users", key="id", ts="@kafka")\n'
    )
    run("post", '{"topic": "users(id)", "ts": 5, "id": 1}')
    assert run("post", '{"topic": "users(id)", "ts": 4, "id": 1, "x": 1}').stdout == "1 late\n"
    assert documents("users") == {1: {"id": 1}}


@pytest.mark.parametrize(
    ("wire", "why"),
    [
        ('{"id": 1}', "it names no table; write it as"),
        ('{"topic": 7}', "it names no table"),
        ('{"topic": "users(name)"}', "names another key than table 'users' has: write 'users(id)'"),
        ('{"topic": "users(id"}', "is no table; write it as"),
    ],
)
def test_a_wire_form_that_names_no_table(wire: str, why: str, shop: Path, run: Run) -> None:
    output = run("post", wire, code=2).stderr
    assert why in output
    assert output.count("\n") == 1


def test_while_another_process_holds_the_store_the_work_is_handed_over(shop: Path, run: Run) -> None:
    with ps.open(load("app.py"), "penstock-state") as engine:
        said = run("put", "users", *USERS, "-v")
        assert said.stdout == "3 applied\n"
        assert said.stderr.startswith("handed over to process ")
        wire = '{"topic": "marks", "shop": "NO", "number": 1, "mark": 2}'
        assert run("post", wire, '{"topic": "users", "ts": 9, "id": 1, "name": "Eve"}').stdout == "2 applied\n"
        assert run("delete", "users", "2", "9").stdout == "1 applied, 1 equal\n"
        assert "rejected: users, record 1: no key" in run("put", "users", "{}", code=1).stderr
        with engine.snapshot() as snap:
            assert sorted(snap.table("users")) == [(1, {"ts": 9, "id": 1, "name": "Eve"}), (3, snap.table("users")[3])]
            assert snap.position == 3, "each call is one transaction"
