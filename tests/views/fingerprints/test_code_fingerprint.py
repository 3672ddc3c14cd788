"""The fingerprint of a view's code: which edits change it, and which do not."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import penstock as ps
from penstock.views import difference, fingerprint, stored_definition
from penstock.views.fingerprints.code_fingerprint import fingerprint_of
from tests.tidy.tree import ROOT

HELPERS = '''
"""What the app calls."""
import json

LIMIT = 5
KINDS = {"b", "a"}


def clean(name):
    """Cut it."""
    return deep(name).strip() + json.dumps(LIMIT)


def deep(name):
    return name if name not in KINDS else name.lower()


class Product:
    zero = 1

    def __init__(self, by=3):
        self.by = by

    def lift(self, value):
        return value * self.by

    def merge(self, a, b):
        return a * b

    def unmerge(self, a, b):
        return a // b
'''
APP = """
import penstock as ps
import helpers
from helpers import Product

app = ps.App("shop")
users = app.table("users", key="id")


def made(width):
    @users.view("cut", reduce=ps.count())
    def cut(user, more=7):
        yield helpers.clean(user["name"])[:width], more

    return cut


made(3)
users.view("product", key="name", value="n", reduce=ps.group(Product(2)))


@users.view(reduce=lambda values, rereduce: sum(values) if rereduce else len(values))
def inside(user):
    from helpers import deep

    yield deep(user["name"])


@inside.view(reduce=ps.count())
def over(row):
    return [row.value for row in (row, row) if row.key in {"x", "y"}]
"""
Load = Callable[..., dict[str, dict[str, str]]]


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    """Return the fingerprints of the app's views, after replacing texts in the app or in its helpers."""
    path, modules = list(sys.path), set(sys.modules)
    count = 0

    def load(*edits: tuple[str, str], helpers: str = HELPERS, app: str = APP) -> dict[str, dict[str, str]]:
        nonlocal count
        count += 1
        for old, new in edits:
            assert (helpers + app).count(old) == 1, old
            helpers, app = helpers.replace(old, new), app.replace(old, new)
        folder = tmp_path / str(count)
        folder.mkdir()
        (folder / "helpers.py").write_text(helpers)
        (folder / "shop.py").write_text(app)
        sys.path[:] = [str(folder), *path]
        sys.modules.pop("helpers", None)
        found = _imported("shop", folder / "shop.py").app
        return {view.name: fingerprint(view) for view in found.views()}

    yield load
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def _imported(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def changed(load: Load, *edits: tuple[str, str]) -> dict[str, list[str]]:
    """Return by view the parts that differ after these edits."""
    before, after = load(), load(*edits)
    out: dict[str, list[str]] = {}
    for view, parts in before.items():
        names = sorted({*parts, *after[view]})
        if differing := [name for name in names if parts.get(name) != after[view].get(name)]:
            out[view] = differing
    return out


SAME = [
    ("a comment", [("yield deep(user", "# as it is\n    yield deep(user")]),
    ("a docstring", [('"""Cut it."""', '"""Cut it, and say how much."""')]),
    ("no docstring", [('    """Cut it."""\n', "")]),
    (
        "layout",
        [
            (
                "return deep(name).strip() + json.dumps(LIMIT)",
                "return (\n        deep(name)\n        .strip() + json.dumps(LIMIT))",
            )
        ],
    ),
    ("a constant that nothing reads", [("LIMIT = 5", "OTHER = 7\nLIMIT = 5")]),
    ("the order of a set", [('{"b", "a"}', '{"a", "b"}')]),
    ("where it stands", [("class Product", "def more():\n    pass\n\n\nclass Product")]),
    ("the name of the function", [("def cut(user", "def trim(user"), ("return cut\n", "return trim\n")]),
]


@pytest.mark.parametrize("edits", [edits for _, edits in SAME], ids=[name for name, _ in SAME])
def test_edits_without_effect_keep_the_fingerprint(load: Load, edits: list[tuple[str, str]]) -> None:
    assert changed(load, *edits) == {}


OTHER: list[tuple[str, list[tuple[str, str]], dict[str, list[str]]]] = [
    ("the map", [('if row.key in {"x", "y"}', 'if row.key in {"x", "z"}')], {"over": ["its map"]}),
    ("a helper in another module", [(".strip() +", ".rstrip() +")], {"cut": ["helpers.clean()"]}),
    (
        "a helper that a helper calls",
        [("name.lower()", "name.upper()")],
        {"cut": ["helpers.deep()"], "inside": ["helpers.deep()"]},
    ),
    ("a constant of another module", [("LIMIT = 5", "LIMIT = 6")], {"cut": ["helpers.LIMIT"]}),
    (
        "what a set holds",
        [('{"b", "a"}', '{"b", "c"}')],
        {"cut": ["helpers.KINDS"], "inside": ["helpers.KINDS"]},
    ),
    ("the value of a closure", [("made(3)", "made(4)")], {"cut": ["width of its map"]}),
    ("a default", [("more=7", "more=8")], {"cut": ["default 1 of its map"]}),
    ("a user's group", [("return a * b", "return a * b * 1")], {"product": ["Product"]}),
    ("an attribute of a user's group", [("Product(2)", "Product(3)")], {"product": ["by of its reducer"]}),
    (
        "a function in the place of a reducer",
        [("else len(values)", "else len(values) + 0")],
        {"inside": ["its reducer"]},
    ),
]


@pytest.mark.parametrize(("edits", "parts"), [row[1:] for row in OTHER], ids=[row[0] for row in OTHER])
def test_edits_with_effect_change_the_fingerprint(
    load: Load, edits: list[tuple[str, str]], parts: dict[str, list[str]]
) -> None:
    assert changed(load, *edits) == parts


def test_a_field_view_with_built_in_reducers_has_no_fingerprint() -> None:
    users = ps.App("shop").table("users", key="id")
    view = users.view("names", key="name", reduce={"n": ps.count(), "last": ps.max("age")})
    assert fingerprint(view) == {}
    assert "code" not in stored_definition(view)


def test_the_fingerprint_is_equal_in_every_process_and_script(tmp_path: Path) -> None:
    (tmp_path / "helpers.py").write_text(HELPERS)
    shown = "import json\nfrom penstock.views import fingerprint as of\n{}print(json.dumps([*map(of, app.views())]))\n"
    (tmp_path / "shop.py").write_text(APP)
    (tmp_path / "show.py").write_text(shown.format("from shop import app\n"))
    (tmp_path / "script.py").write_text(APP + shown.format(""))
    found = set()
    for file, seed in (("show.py", "1"), ("show.py", "2"), ("script.py", "3")):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run([sys.executable, tmp_path / file], env=env, check=True, capture_output=True, text=True)
        found.add(done.stdout)
    assert len(found) == 1
    assert all(json.loads(found.pop()))


def test_a_file_edited_after_its_import_is_not_used(load: Load, tmp_path: Path) -> None:
    before = load()["inside"]
    file = tmp_path / "1" / "shop.py"
    shop = sys.modules["helpers"].__file__
    assert shop == str(tmp_path / "1" / "helpers.py")
    module = _imported("shop", file)
    file.write_text(APP.replace('yield deep(user["name"])', 'yield deep(user["city"])'))
    found = fingerprint(module.app.view_of("inside"))
    assert found["its map"] != before["its map"], "the bytecode of what runs stands for it"
    file.write_text(APP)
    assert fingerprint(module.app.view_of("inside")) == before


def test_without_source_the_bytecode_is_used() -> None:
    def compiled(text: str) -> Any:
        space: dict[str, Any] = {"LIMIT": 3}
        exec(text, space)
        return space["f"]

    first = fingerprint_of([("f", compiled("def f(doc):\n    yield doc['a'], LIMIT\n"))])
    moved = fingerprint_of(
        [("f", compiled("\n\n# a line\ndef f(doc):\n    'What it does.'\n    yield doc['a'], LIMIT\n"))]
    )
    other = fingerprint_of([("f", compiled("def f(doc):\n    yield doc['b'], LIMIT\n"))])
    assert set(first) == {"f", "LIMIT"}
    assert first == moved
    assert first["f"] != other["f"]
    assert first["LIMIT"] == other["LIMIT"]


def test_two_lambdas_of_a_line_are_distinguished() -> None:
    one, two = (lambda doc: [doc["a"]]), (lambda doc: [doc["b"]])
    three = lambda doc: [(lambda x: x)(doc["a"])]  # noqa: E731
    assert len({str(fingerprint_of([("f", f)])) for f in (one, two, three)}) == 3
    again, other = (lambda doc: [doc["a"]]), (lambda doc: [doc["b"]])
    assert fingerprint_of([("f", one)]) == fingerprint_of([("f", again)])
    assert fingerprint_of([("f", two)]) == fingerprint_of([("f", other)])


def test_wrapped_functions_are_followed() -> None:
    def inner(doc: Any) -> list[Any]:
        return [doc["a"]]

    def other(doc: Any) -> list[Any]:
        return [doc["b"]]

    def logged(function: Any) -> Any:
        @functools.wraps(function)
        def run(doc: Any) -> Any:
            return function(doc)

        return run

    wrappers: list[Callable[[Any], Any]] = [
        logged,
        functools.lru_cache,
        lambda f: functools.partial(f),
        lambda f: type("Callable", (), {"__call__": lambda self, doc: f(doc)})(),
    ]
    for wrap in wrappers:
        assert fingerprint_of([("f", wrap(inner))]) == fingerprint_of([("f", wrap(inner))])
        assert fingerprint_of([("f", wrap(inner))]) != fingerprint_of([("f", wrap(other))])
    assert fingerprint_of([("f", functools.partial(inner, 1))]) != fingerprint_of([("f", functools.partial(inner, 2))])


def test_versions_stand_for_code() -> None:
    def defined(version: str | None, letter: str) -> dict[str, Any]:
        users = ps.App("shop").table("users", key="id")

        @users.view("names", reduce=ps.count(), version=version)
        def names(doc: Any) -> Iterator[Any]:
            yield doc["name"], letter

        return stored_definition(names)

    assert difference(defined(None, "a"), defined(None, "b")) == "letter of its map changed"
    assert difference(defined("1", "a"), defined("1", "b")) == ""
    assert difference(defined("1", "a"), defined("2", "a")) == "its version was '1' and is '2'"
    assert difference(defined(None, "a"), defined("1", "a")) == "", "a version alone changes nothing"
    assert difference(defined(None, "a"), defined("1", "b")) == "letter of its map changed"


@pytest.mark.parametrize("version", [1, "", True, ["1"]])
def test_a_version_is_text(version: Any) -> None:
    users = ps.App("shop").table("users", key="id")
    with pytest.raises(ps.DefinitionError, match="version="):
        users.view("names", key="name", reduce=ps.count(), version=version)


def test_a_cycle_of_functions_and_values_ends() -> None:
    values: list[Any] = [1]
    values.append(values)

    def even(n: int) -> bool:
        return n == 0 or odd(n - 1)

    def odd(n: int) -> bool:
        return n != 0 and even(n - 1) and bool(values)

    def count(doc: Any) -> list[Any]:
        return [even(doc["n"])]

    assert fingerprint_of([("f", count)]) == fingerprint_of([("f", count)])
    assert any("odd" in part for part in fingerprint_of([("f", count)]))


def test_a_constant_of_any_size_is_part_of_it() -> None:
    def with_limit(limit: int) -> Any:
        table = ps.App("shop").table("t", key="id")
        return fingerprint(table.view("v", reduce=ps.count())(lambda doc: [doc["a"] < limit]))

    assert with_limit(10**10_000) == with_limit(10**10_000) != with_limit(10**10_000 + 1)
