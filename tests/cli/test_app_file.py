"""The search for the user's app, its import, and the errors of both."""

import sys
from pathlib import Path

import pytest

from tests.cli.conftest import APP, Run


def test_an_app_by_name(shop: Path, run: Run) -> None:
    (shop / "two.py").write_text(
        'import penstock as ps\none = ps.App("one")\ntwo = ps.App("two")\ntwo.table("b", key="id")\n'
    )
    assert run("explain", "--app", "two.py:two").stdout == "b  table by id\n"
    output = run("explain", "--app", "two.py", code=2).stderr
    assert output == "penstock: two.py has several apps (one, two); choose one with --app two.py:one\n"
    assert run("explain", "--app", "two.py:tow", code=2).stderr == (
        "penstock: two.py has nothing named 'tow'; did you mean two.py:two?\n"
    )
    assert "ps in two.py is no ps.App" in run("explain", "--app", "two.py:ps", code=2).stderr
    assert "write --app FILE:NAME" in run("explain", "--app", "two.py:zzzzz", code=2).stderr


def test_an_app_under_two_names_is_one(shop: Path, run: Run) -> None:
    (shop / "app.py").write_text(APP + "\nsame = app\n")
    run("explain")


def test_a_file_whose_name_has_a_colon(shop: Path, run: Run) -> None:
    (shop / "app.py").rename(shop / "a:b")
    run("explain", "--app", "a:b")
    run("explain", "--app", "a:b:app")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("nothing.py", "the app file nothing.py does not exist; `penstock init` writes one, --app FILE names another"),
        ("nothing.py:app", "the app file nothing.py does not exist"),
        (".", "the app file . is a folder"),
    ],
)
def test_a_missing_app_file(name: str, why: str, run: Run) -> None:
    output = run("--app", name, "query", "namecount", code=2).stderr
    assert output.startswith(f"penstock: {why}")
    assert output.count("\n") == 1


def test_the_first_thing_a_new_user_sees(run: Run) -> None:
    assert "`penstock init` writes one" in run("query", "namecount", code=2).stderr


def test_a_file_without_an_app(shop: Path, run: Run) -> None:
    (shop / "app.py").write_text("x = 1\n")
    assert run("explain", code=2).stderr == (
        "penstock: app.py has no ps.App; write app = ps.App('name') at its top level\n"
    )


def test_what_an_app_raises_is_shown_in_its_own_lines(shop: Path, run: Run) -> None:
    (shop / "helper.py").write_text("def made():\n    return namez\n")
    (shop / "app.py").write_text("import json\nimport helper\n\nhelper.made()\n")
    output = run("explain", code=3).stderr
    assert output.splitlines() == [
        "Traceback (most recent call last):",
        f'  File "{shop / "app.py"}", line 4, in <module>',
        "    helper.made()",
        f'  File "{shop / "helper.py"}", line 2, in made',
        "    return namez",
        "           ^^^^^",
        "NameError: name 'namez' is not defined",
        "penstock: app.py can't be imported; fix that and run this again",
    ]


def test_of_a_definition_that_cannot_be_meant_the_users_line_is_shown_and_no_other(shop: Path, run: Run) -> None:
    (shop / "app.py").write_text('import penstock as ps\napp = ps.App("shop")\napp.table("users", key=3)\n')
    lines = run("explain", code=3).stderr.splitlines()
    assert [line for line in lines if line.startswith("  File")] == [f'  File "{shop / "app.py"}", line 3, in <module>']
    assert "DefinitionError: key= of table 'users' is 3; write a path" in lines[-2]


def test_causes_are_trimmed_as_well(shop: Path, run: Run) -> None:
    (shop / "app.py").write_text(
        "import json\ntry:\n    json.loads('x')\nexcept ValueError as e:\n    raise RuntimeError('mine') from e\n"
    )
    output = run("explain", code=3).stderr
    assert "JSONDecodeError" in output
    assert "RuntimeError: mine" in output
    assert "decoder.py" not in output


@pytest.mark.parametrize(
    ("text", "said"),
    [("def f(:\n", "SyntaxError"), ("raise SystemExit(4)\n", "SystemExit: 4"), ("import nothing_there\n", "No module")],
)
def test_an_app_that_is_no_program_or_ends_itself(text: str, said: str, shop: Path, run: Run) -> None:
    (shop / "app.py").write_text(text)
    output = run("explain", code=3).stderr
    assert said in output
    assert "importlib" not in output
    assert "penstock/" not in output


def test_what_an_app_prints_is_no_output_of_the_command(shop: Path, run: Run) -> None:
    (shop / "app.py").write_text(APP + "\nprint('hello')\n")
    result = run("completion", "bash")
    result = run("put", "users", '{"id": 1, "name": "A", "ts": 1}')
    assert result.stdout == "1 applied\n"
    assert result.stderr == "hello\n"


def test_what_lies_beside_the_app_can_be_imported_from_anywhere(shop: Path, run: Run, tmp_path: Path) -> None:
    deep = tmp_path / "apps" / "deep"
    deep.mkdir(parents=True)
    (deep / "beside.py").write_text('NAME = "inner"\n')
    (deep / "json.py").write_text(f"{APP}\nimport beside\napp.table(beside.NAME, key='id')\n")
    assert "inner  " in run("explain", "--app", "apps/deep/json.py").stdout
    assert "apps" not in str(sys.modules["json"].__file__)
