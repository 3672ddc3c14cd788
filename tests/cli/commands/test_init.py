"""The first minute of a new user."""

import ast
import json
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

from penstock.cli.commands.init import APP_TEXT, sample
from tests.cli.conftest import Run
from tests.cli.terminal import Terminal


def test_the_printed_commands_lead_to_a_maintained_view(workdir: Path, run: Run) -> None:
    said = run("init").stdout
    wrote, _, commands = said.partition("\n\nNext:\n")
    assert wrote == "wrote app.py\nwrote orders.jsonl\nwrote customers.jsonl\nwrote products.jsonl"
    lines = commands.splitlines()
    assert lines[0] == "  penstock load orders orders.jsonl"
    assert lines[-2:] == ["  penstock query revenue", "  penstock query tiers"]
    outputs = [run(*line.split()[1:]).stdout for line in lines]
    assert [json.loads(line)["key"] for line in outputs[-1].splitlines()] == ["gold", "plain", "silver"]
    rows = [json.loads(line) for line in outputs[-2].splitlines()]
    assert [row["key"] for row in rows] == ["DK", "NO", "SE"]
    orders = _newest("orders")
    assert sum(row["value"]["n"] for row in rows) == sum(order["paid"] for order in orders.values())
    assert run("query", "size").stdout
    assert run("query", "daily", "--level", "1").stdout
    assert run("check").exit_code == 0


def test_its_joins_are_those_of_a_loop(workdir: Path, run: Run) -> None:
    run("init")
    for table in sample():
        run("load", table, f"{table}.jsonl")
    orders, customers, products = (_newest(table) for table in sample())
    tiers, categories = defaultdict[str, Decimal](Decimal), defaultdict[str, Decimal](Decimal)
    for order in orders.values():
        if order["customer"] in customers:
            tiers[customers[order["customer"]]["tier"]] += Decimal(str(order["amount"]))
        for item in order["items"]:
            categories[products[item]["category"]] += 1
    assert len(orders) > sum(order["customer"] in customers for order in orders.values()) > 0
    for view, expected in (("tiers", tiers), ("categories", categories)):
        rows = [json.loads(line) for line in run("query", view).stdout.splitlines()]
        assert {row["key"]: round(row["value"], 2) for row in rows} == {key: float(n) for key, n in expected.items()}


def _newest(table: str) -> dict[Any, Any]:
    newest: dict[Any, Any] = {}
    for document in sample()[table]:
        if document["id"] not in newest or newest[document["id"]]["ts"] < document["ts"]:
            newest[document["id"]] = document
    return newest


def test_init_in_a_folder_that_is_not_there(workdir: Path, run: Run) -> None:
    said = run("init", "my shop").stdout
    assert "  cd 'my shop'\n" in said
    assert sorted(p.name for p in (workdir / "my shop").iterdir()) == [
        "app.py",
        "customers.jsonl",
        "orders.jsonl",
        "products.jsonl",
    ]


def test_init_overwrites_nothing(workdir: Path, run: Run) -> None:
    (workdir / "customers.jsonl").write_text("mine")
    output = run("init", code=2).stderr
    assert output == "penstock: customers.jsonl is there already; choose another folder: penstock init DIR\n"
    assert not (workdir / "app.py").exists()
    assert (workdir / "customers.jsonl").read_text() == "mine"


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
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("table", "view", "join")
    ]
    assert len(calls) == 11
    for call in calls:
        assert isinstance(call.args[0], ast.Constant)
        assert lines[call.lineno - 2].startswith("#")
    assert max(map(len, lines)) <= 120


def test_what_init_says_on_a_terminal(workdir: Path) -> None:
    with Terminal("init", cwd=workdir) as terminal:
        assert terminal.end() == 0
    assert "penstock query revenue" in terminal.seen
