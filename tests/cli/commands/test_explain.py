"""The graph of tables and views."""

import json
import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from pathlib import Path

import pytest

import penstock as ps
from penstock.views import definition_forest, definition_sentence, graph_mermaid, graph_svg, graph_text
from penstock.views.graph.definition_graph import condition, reducers_text
from tests.cli.conftest import Run

GRAPH = """\
users            table by id, ts ts
├─ namecount     by name → count()
│  └─ by_length  by function by_length → sum()
├─ ages          by (country, name) → n: count(), mean: mean(age)
├─ adults        by country where age >= 18 → count()
└─ initials      by function initials → count()
marks            table by (shop, number), patch
└─ total         all in one group → sum(mark)
"""


def test_the_graph_needs_no_store(shop: Path, run: Run) -> None:
    assert run("explain").stdout == GRAPH
    assert not (shop / "penstock-state").exists()


def test_a_store_adds_how_many_there_are(filled: Path, run: Run) -> None:
    shown = run("explain").stdout
    assert re.search(r"^users .* 3 documents$", shown, re.MULTILINE)
    assert re.search(r"^├─ namecount .* 2 groups$", shown, re.MULTILINE)
    assert re.search(r"^│  └─ by_length .* 1 group$", shown, re.MULTILINE)


def facts(shown: str) -> dict[str, str]:
    graph, _, rest = shown.partition("\n\n")
    assert graph
    return dict(re.split(r" {2,}", line, maxsplit=1) for line in rest.splitlines())


def test_one_view_is_explained_with_its_costs_and_hot_groups(filled: Path, run: Run) -> None:
    found = facts(run("explain", "namecount").stdout)
    assert found["groups"] == "by name"
    assert found["result"] == "count()"
    assert found["kept as"].startswith("accumulator: one row per group")
    assert found["an update"].startswith("reads and writes one row for each group")
    assert found["runs"] == "over columns, without Python for a document"
    assert re.fullmatch(r"2, \d+ bytes, 3 contributions", found["rows"])
    assert found["hot groups"] == '"Joe" 2 (67 %), "Sue" 1 (33 %)'


def test_function_views_and_views_of_views_say_what_they_run(filled: Path, run: Run) -> None:
    initials = facts(run("explain", "initials").stdout)
    assert initials["runs"] == "a Python call for each document"
    assert initials["an update"].endswith("the emission of the function is stored with the document")
    shown = run("explain", "by_length").stdout
    assert facts(shown)["runs"] == "once for each row of namecount that changes"
    assert "ages" not in shown, "only what it comes from"
    assert "users" in shown


def test_a_table_is_explained(shop: Path, run: Run) -> None:
    assert facts(run("explain", "marks").stdout)["is"] == "table by (shop, number), patch"


def test_mermaid(shop: Path, run: Run) -> None:
    shown = run("explain", "adults", "--format", "mermaid").stdout.splitlines()
    assert shown == [
        "flowchart LR",
        '  n0[("users<br/>table by id, ts ts")]',
        '  n1["adults<br/>by country where age #gt;= 18<br/>count()"]',
        "  n0 --> n1",
    ]


def test_svg_is_xml_with_a_box_for_each_and_is_the_same_each_time(shop: Path, run: Run) -> None:
    shown = run("explain", "--format", "svg").stdout
    assert shown == run("explain", "--format", "svg").stdout
    root = ElementTree.fromstring(shown)
    space = "{" + root.tag[1:].partition("}")[0] + "}"
    names = [t.text for t in root.iter(f"{space}text") if t.get("class") == "name"]
    assert names == ["users", "namecount", "by_length", "ages", "adults", "initials", "marks", "total"]
    boxes = [(float(b.get("x", 0)), float(b.get("y", 0)), float(b.get("height", 0))) for b in root.iter(f"{space}rect")]
    assert len(boxes) == 8
    for column in {x for x, _, _ in boxes}:
        spans = sorted((y, y + height) for x, y, height in boxes if x == column)
        assert all(a[1] <= b[0] for a, b in pairwise(spans)), "boxes overlap"
    assert len(list(root.iter(f"{space}path"))) == 6
    assert max(y + height for _, y, height in boxes) <= float(root.get("height", 0))


@pytest.mark.parametrize(
    ("where", "said"),
    [
        (ps.field("a") == "x", 'a == "x"'),
        ((ps.field("a") > 1) & ps.field("b"), "a > 1 and b"),
        ((ps.field("a") > 1) & (ps.field("b") | (ps.field("c.d") != None)), "a > 1 and (b or c.d != null)"),  # noqa: E711
        (ps.field("c.d") == None, "c.d == null"),  # noqa: E711
        (~ps.field("b") | (ps.field("n") < 2**70), f"not b or n < {hex(2**70)}"),
        (~(ps.field("a") > 1), "not (a > 1)"),
    ],
)
def test_conditions_in_words(where: ps.Where, said: str) -> None:
    assert condition(where.describe()) == said


def test_definitions_in_words() -> None:
    app = ps.App("a")
    table = app.table("t", key=("a", "b.c"), ts="@kafka")
    view = table.view("v", key="x", value="y", reduce={"s": ps.sum(), "m": ps.mean("z"), "n": ps.count()})
    spread = table.view("w", key="x", reduce=ps.histogram([0, 1], "y"))
    assert definition_sentence(table) == "table by (a, b.c), ts of the broker"
    assert definition_sentence(view) == "by x → s: sum(y), m: mean(y.z), n: count()"
    assert definition_sentence(spread) == "by x → histogram(y, edges=[0, 1])"
    assert graph_svg([], "nothing").endswith("</svg>")
    assert graph_mermaid([]) == "flowchart LR"
    assert graph_text([], {}) == ""
    assert [node.definition.name for node in definition_forest(app)] == ["t"]


TREES = """
import penstock as ps
app = ps.App("trees")
sales = app.table("sales", key="id")
best = sales.view("best", key="shop", reduce={"max": ps.max("price"), "top": ps.top(2, "price"), "n": ps.count()})
plain = sales.view("plain", key="shop", value="price", reduce=None)
kept = sales.view("kept", key="shop", reduce=ps.count(), sources=True)

def longest(values, rereduce):
    return max(values)

by_hand = sales.view("by_hand", key="shop", value="price", reduce=longest)
"""


def test_trees_and_indexes(workdir: Path, run: Run) -> None:
    (workdir / "app.py").write_text(TREES)
    run("put", "sales", *(f'{{"id": {i}, "shop": "{"ab"[i > 1]}", "price": {i}}}' for i in range(5)))
    shown = run("explain").stdout.splitlines()
    assert shown[1].startswith("├─ best     by shop → max: max(price), top: top(price, n=2), n: count()")
    assert "plain    by shop → an index of values" in shown[2]
    assert "by_hand  by shop → function longest" in shown[4]
    for name in ("best", "kept", "by_hand"):
        assert facts(run("explain", name).stdout)["trees"].startswith("none: ")
        found = facts(run("explain", name).stdout)
        assert found["kept as"].startswith("tree: a group's contributions")
        assert found["an update"].startswith("reads and writes one path of the tree")
        assert found["hot groups"] == '"b" 3 (60 %), "a" 2 (40 %)'
    index = facts(run("explain", "plain").stdout)
    assert index["kept as"].startswith("index: each contribution is a row")
    assert index["rows"].endswith(" bytes, 5 contributions")
    assert "hot groups" not in index
    assert run("query", "plain", "--limit", "1").stdout == '{"key": ["a", 0, 0], "value": 0}\n'
    assert "a plain index folds nothing" in run("query", "plain", "--level", "0", code=2).stderr
    run("put", "sales", *(f'{{"id": {i}, "shop": "c", "price": {i}}}' for i in range(10, 110)))
    assert re.fullmatch("[0-9]+ nodes beside the rows, at most 2 deep", facts(run("explain", "best").stdout)["trees"])
    assert "trees" not in facts(run("explain", "plain").stdout)
    assert json.loads(run("doc", "sales", "4").stdout)["views"] == {
        "best": {"told": [["b", 4]]},
        "plain": {"told": [["b", 4]]},
        "kept": {"told": [["b", None]]},
        "by_hand": {"told": [["b", 4]]},
    }


JOINED = """
import penstock as ps
app = ps.App("joined")
orders, customers = app.table("orders", key="id"), app.table("customers", key="id")
sold = app.join("sold", order=orders, customer=customers, on={"order.customer": "customer.id"})
sold.view("by_country", key="customer.country", reduce=ps.count())
wrong = app.join("wrong", order=orders, customer=customers, on={"order.costumer": "customer.name"})
wrong.view("by_name", key="customer.name", reduce=ps.count())
"""


def test_a_join_is_explained_with_the_matches_of_its_sides(workdir: Path, run: Run) -> None:
    (workdir / "app.py").write_text(JOINED)
    assert "side order" not in facts(run("explain", "sold").stdout), "there is no store"
    run("put", "orders", *(f'{{"id": {i}, "customer": {i % 4}}}' for i in range(6)))
    run("put", "customers", *(f'{{"id": {i}, "name": "n{i}"}}' for i in (0, 1, 7)))
    found = facts(run("explain", "sold").stdout)
    order = r"4 of 6 documents match; 6 have order\.customer, in \d+ bytes; one has 0\.7 matches on average, 1 at most"
    assert re.fullmatch(order, found["side order"])
    assert found["side customer"].startswith("2 of 3 documents match; 3 have customer.id, looked up by key; ")
    assert found["side customer"].endswith("; one has 1.3 matches on average, 2 at most")
    assert found["matches"] == "4 pairs at 2 condition values, 2 at one on average"
    assert sorted(found["largest"].split(", ")) == ["0: 2 × 1", "1: 2 × 1"]
    found = facts(run("explain", "wrong").stdout)
    assert found["side order"].startswith("0 of 6 documents match; none has order.costumer; ")
    assert "largest" not in found


CHAIN = """
import penstock as ps
app = ps.App("chain")
tables = {name: app.table(name, key="id") for name in ("line", "order", "customer")}
app.join("sold", on={"line.order": "order.id", "order.customer": "customer.id"}, **tables)
"""


def test_a_join_of_three_sides_is_explained_with_its_prefix(workdir: Path, run: Run) -> None:
    (workdir / "app.py").write_text(CHAIN)
    assert "prefix" not in facts(run("explain", "sold").stdout), "there is no store"
    run("put", "customer", '{"id": 1}')
    run("put", "order", *(f'{{"id": {i}, "customer": 1}}' for i in range(2)))
    run("put", "line", *(f'{{"id": {i}, "order": {i % 2}}}' for i in range(4)))
    found = facts(run("explain", "sold").stdout)
    assert found["prefix"] == "line with order: 4 entries"
    assert found["side (line+order)"].startswith("4 of 4 rows match; 4 have order.customer, in ")
    assert found["better order"].startswith("order, then customer, then line: ")
    assert "sold:line+order" in run("status", "--format", "table").stdout


def test_the_status_names_a_side_whose_path_no_document_has(workdir: Path, run: Run) -> None:
    (workdir / "app.py").write_text(JOINED)
    run("put", "orders", '{"id": 1, "customer": 1}', '{"id": 2}')
    shown = run("status", "--format", "table").stdout
    assert "join wrong: 0 of 2 orders match, since none has order.costumer" in shown
    assert "join sold: 0" not in shown
    empty = json.loads(run("status").stdout)["joins"]["wrong"]["empty"]
    assert {"side": "order", "source": "orders", "paths": ["order.costumer"]} in empty


def test_the_options_of_reducers_are_shown_in_full() -> None:
    table = ps.App("a").table("t", key="id")
    reduce = {
        "q": ps.quantiles([0.5, 0.75], "a"),
        "half": ps.quantiles([0.5], "a"),
        "h": ps.histogram([1, 2.5], "a", where=ps.field("b") > 1),
        "top": ps.top(2, "a", by=["-b", "c.d"]),
        "best": ps.top(2, "a", by="-b"),
        "most": ps.argmax("a", "b.c", where="paid"),
        "sum": ps.sum("a", distinct=True),
        "all": ps.collect(3, "a", nulls=True),
    }
    assert reducers_text(table.view("v", key="g", reduce=reduce)) == (
        "q: quantiles(a, shares=[1/2, 3/4]), half: quantiles(a, shares=1/2), "
        "h: histogram(a, edges=[1, 2.5], where b > 1), top: top(a, n=2, by=[-b, c.d]), best: top(a, n=2, by=-b), "
        "most: argmax(a, by=b.c, where paid), sum: sum(a, distinct=true), all: collect(a, n=3, nulls=true)"
    )
