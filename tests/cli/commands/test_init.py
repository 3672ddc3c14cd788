"""The first minute of a new user."""

import ast
import json
from pathlib import Path

from penstock.cli.commands.init import APP_TEXT, sample
from tests.cli.conftest import Run
from tests.cli.terminal import Terminal


def test_three_commands_from_nothing_to_a_maintained_view(workdir: Path, run: Run) -> None:
    said = run("init").stdout
    assert (
        said
        == "wrote app.py\nwrote sample.jsonl\n\nNext:\n  penstock load orders sample.jsonl\n  penstock query revenue\n"
    )
    for line in said.splitlines()[-2:]:
        shown = run(*line.split()[1:]).stdout
    rows = [json.loads(line) for line in shown.splitlines()]
    assert [row["key"] for row in rows] == ["DK", "NO", "SE"]
    paid = {}
    for line in sample().splitlines():
        order = json.loads(line)
        if order["id"] not in paid or paid[order["id"]]["ts"] < order["ts"]:
            paid[order["id"]] = order
    assert sum(row["value"]["n"] for row in rows) == sum(order["paid"] for order in paid.values())
    assert run("query", "size").stdout
    assert run("query", "daily", "--level", "1").stdout


def test_init_in_a_folder_that_is_not_there(workdir: Path, run: Run) -> None:
    said = run("init", "my shop").stdout
    assert "  cd 'my shop'\n" in said
    assert sorted(p.name for p in (workdir / "my shop").iterdir()) == ["app.py", "sample.jsonl"]


def test_init_overwrites_nothing(workdir: Path, run: Run) -> None:
    (workdir / "sample.jsonl").write_text("mine")
    output = run("init", code=2).stderr
    assert output == "penstock: sample.jsonl is there already; choose another folder: penstock init DIR\n"
    assert not (workdir / "app.py").exists()
    assert (workdir / "sample.jsonl").read_text() == "mine"


def test_a_place_where_nothing_can_be_made_is_named(workdir: Path, run: Run) -> None:
    (workdir / "file").write_text("")
    output = run("init", "file/inner", code=3).stderr
    assert output.startswith("penstock: file")
    assert output.count("\n") == 1


def test_every_definition_of_the_app_has_a_comment_and_names_itself_by_a_literal() -> None:
    lines = APP_TEXT.splitlines()
    tree = ast.parse(APP_TEXT)
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("table", "view")
    ]
    assert len(calls) == 5
    for call in calls:
        assert isinstance(call.args[0], ast.Constant)
        assert lines[call.lineno - 2].startswith("#")
    assert max(map(len, lines)) <= 120


def test_what_init_says_on_a_terminal(workdir: Path) -> None:
    with Terminal("init", cwd=workdir) as terminal:
        assert terminal.end() == 0
    assert "penstock query revenue" in terminal.seen
