"""`penstock migrate`, and other commands if the app and the store differ."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.cli.app_file import load as load_app
from tests.cli.conftest import APP, USERS, Run
from tests.cli.loading import STORE, lines, users
from tests.cli.terminal import Terminal

OTHER = APP.replace('key="name", reduce=ps.count()', 'key="country", reduce=ps.count()').replace("adults", "grown")


def names(run: Run, view: str = "namecount") -> dict[Any, Any]:
    """Return the rows of a view, as `query` prints them."""
    return {row["key"]: row["value"] for row in map(json.loads, run("query", view).stdout.splitlines())}


@pytest.fixture
def other(filled: Path, run: Run) -> Path:
    """Return a store with many users, and an app with other views."""
    (filled / "users.jsonl").write_bytes(lines(users(10, 3_000)))
    run("load", "users", "users.jsonl")
    (filled / "app.py").write_text(OTHER)
    return filled


def test_a_dry_run_says_what_would_be_built(other: Path, run: Run) -> None:
    before = names(run)
    said = json.loads(run("migrate", "--dry-run", code=1).stdout)
    assert {(c["view"], c["kind"]) for c in said["changes"]} == {
        ("namecount", "changed"),
        ("by_length", "follows"),
        ("grown", "new"),
        ("adults", "dropped"),
    }
    assert (said["documents"], said["all"]) == (2_993, False)
    assert 900 < said["sampled"] <= 1_000
    assert {row["view"] for row in said["sample"]} == {"namecount", "by_length", "grown", "adults"}
    assert names(run) == before, "nothing is changed"


def test_it_builds_them_and_says_so(other: Path, run: Run) -> None:
    said = run("migrate").stdout
    assert said.startswith("3 views built of 2,993 documents and rows: ")
    assert "dropped: adults" in said
    assert names(run) == {"NO": 2_992, "SE": 1}
    assert names(run, "grown")
    assert run("migrate").stdout == "all views are as the app has them\n"
    assert json.loads(run("migrate", "--dry-run", code=0).stdout)["changes"] == []
    assert "there is no view named 'adults'" in run("query", "adults", code=2).stderr


@pytest.mark.parametrize("args", [["put", "users", USERS[0]], ["delete", "users", "1"], ["compact"], ["check"]])
def test_other_commands_that_write_refuse(other: Path, run: Run, args: list[str]) -> None:
    said = run(*args, code=3).stderr
    assert said.startswith("penstock: the store was filled under another definition of 'namecount': its key was")
    assert "`penstock migrate`" in said
    assert said.count("\n") == 1
    run("migrate")
    run(*args, code=0)


def test_load_brings_views_up_to_date(other: Path, run: Run) -> None:
    (other / "more.jsonl").write_bytes(lines(users(5_000, 5_010)))
    said = run("load", "users", "more.jsonl")
    assert "3 views built" in said.stderr
    assert names(run) == {"NO": 3_002, "SE": 1}
    run("put", "users", USERS[0])


def test_import_refuses(other: Path, run: Run) -> None:
    run("export", "users", "-o", "all.jsonl")
    assert "`penstock migrate`" in run("import", "users", "all.jsonl", code=3).stderr


def test_who_reads_is_told_of_when_a_view_is(other: Path, run: Run) -> None:
    with ps.open(load_app("app.py"), STORE, listen=False) as engine:
        engine.store.building.stop()
        said = run("query", "namecount", "--limit", "1")
        assert "namecount is being built anew, and stands at position" in said.stderr
        assert "view 'grown' is being built" in run("get", "grown", "NO", code=3).stderr
        status = json.loads(run("status").stdout)
        assert set(status["building"]["views"]) == {"namecount", "by_length", "grown", "adults"}
        assert run("explain").stdout.count("namecount") == 1


def test_an_app_that_is_older_than_the_store_reads_it(other: Path, run: Run) -> None:
    run("migrate")
    (other / "app.py").write_text(APP)
    assert names(run) == {"NO": 2_992, "SE": 1}
    assert names(run, "grown"), "which this app does not have"
    assert json.loads(run("migrate", "--dry-run", code=1).stdout)["changes"]


def test_a_holder_does_the_rest(other: Path, run: Run) -> None:
    with ps.open(load_app("app.py"), STORE) as engine:
        engine.store.building.stop()
        assert "3 views built" in run("migrate").stdout
        assert engine.status()["building"] is None
    (other / "app.py").write_text(APP)
    with ps.open(load_app("app.py"), STORE):
        (other / "app.py").write_text(OTHER)
        said = run("migrate", code=3).stderr
    assert "was started with other definitions of its views" in said


def test_a_helper_in_another_module(workdir: Path, run: Run) -> None:
    """Changes of its code count, and of its comments don't. Values that it reads count too, also of a third module."""

    def write(helper: str, limit: int = 5) -> None:
        (workdir / "limits.py").write_text(f"LIMIT = {limit}\n")
        (workdir / "cleaning.py").write_text(f"import limits\n\ndef clean(name):\n    return {helper}\n")
        for name in ("cleaning", "limits"):
            sys.modules.pop(name, None)

    (workdir / "app.py").write_text(
        "import penstock as ps\nimport cleaning\n"
        'app = ps.App("shop")\nusers = app.table("users", key="id")\n'
        "@users.view(reduce=ps.count())\n"
        'def cleaned(user):\n    yield cleaning.clean(user["name"])\n'
    )
    write("name[: limits.LIMIT]")
    run("put", "users", '{"id": 1, "name": "Susannah"}', '{"id": 2, "name": "Susan"}')
    assert names(run, "cleaned") == {"Susan": 2}
    write("name[: limits.LIMIT]  # as short as it may be")
    run("migrate", "--dry-run", code=0)
    write("name[: limits.LIMIT].upper()")
    assert "'cleaned': cleaning.clean() changed; run `penstock migrate`" in run("delete", "users", "1", code=3).stderr
    run("migrate")
    assert names(run, "cleaned") == {"SUSAN": 2}
    write("name[: limits.LIMIT].upper()", 500)
    [change] = json.loads(run("migrate", "--dry-run", code=1).stdout)["changes"]
    assert change == {"view": "cleaned", "kind": "changed", "why": "cleaning.limits.LIMIT changed"}
    run("migrate")
    assert names(run, "cleaned") == {"SUSAN": 1, "SUSANNAH": 1}


def test_a_page_on_a_terminal(other: Path) -> None:
    with Terminal("migrate", "--dry-run", cwd=other) as terminal:
        assert terminal.end() == 1
        text = terminal.plain()
    assert "grown" in text
    assert "2,993 documents would be read" in text
    assert re.search("some rows, of 9[0-9][0-9] documents alone:", text)
    assert text.rstrip().endswith("`penstock migrate` builds them")


def test_an_error_of_the_app_is_one_line(other: Path, run: Run) -> None:
    (other / "app.py").write_text(
        APP.replace('app.table("users", key="id", ts="ts")', 'app.table("users", key="name")')
    )
    for args in (["migrate"], ["migrate", "--dry-run"]):
        said = run(*args, code=3).stderr
        assert said.startswith("penstock: the store was filled under another definition of 'users': key was")
        assert "load into a new path" in said
