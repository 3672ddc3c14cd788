"""Run the small apps: each ends well, finds a wrong answer, and works from the command line on data that it makes."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import penstock as ps
from tests.tidy.tree import ROOT
from tests.waiting import PATIENCE

APPS = {
    "shop": ("orders",),
    "pageviews": ("pageviews",),
    "leaderboard": ("matches",),
    "wholesale": ("customers", "products", "orders"),
}
each_app = pytest.mark.parametrize("name", APPS)


def part(name: str, module: str) -> ModuleType:
    return importlib.import_module(f"examples.{name}.{module}")


@each_app
def test_it_comes_to_its_end(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    part(name, "__main__").main(600)
    shown = capsys.readouterr().out
    assert len([line for line in shown.splitlines() if line.startswith("== ")]) >= 2
    assert shown.splitlines()[-1].startswith("   all ")


@each_app
def test_it_runs_as_it_is(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"examples.{name}", "300"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@each_app
def test_a_wrong_view_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    items = ps.ViewReader.items

    def wrong(self: ps.ViewReader, *args: object, **options: object) -> object:
        *rows, _ = items(self, *args, **options)
        return iter(rows)

    monkeypatch.setattr(ps.ViewReader, "items", wrong)
    with pytest.raises(SystemExit, match=r"view \w+ is .* and should be "):
        part(name, "__main__").main(300)


@each_app
def test_its_data_loads_from_the_command_line(name: str, tmp_path: Path) -> None:
    app, store, tables = ROOT / "examples" / name / "app.py", tmp_path / "state", APPS[name]
    made = part(name, "app").app
    with ps.open(made, None) as other:
        for table in tables:
            file = tmp_path / f"{table}.jsonl"
            program = [f"examples.{name}.data", *([table] if len(tables) > 1 else []), "400", "3"]
            with file.open("wb") as out:
                subprocess.run([sys.executable, "-m", *program], cwd=ROOT, stdout=out, check=True)
            command = ["load", table, str(file), "--app", str(app), "--store", str(store)]
            subprocess.run([sys.executable, "-m", "penstock", *command], cwd=ROOT, check=True, timeout=PATIENCE)
            other.put_many(table, file.read_bytes())
        with ps.open(made, store, readonly=True) as engine:
            assert engine.digest() == other.digest()
            assert engine.status()["tables"][tables[-1]]["documents"] > 100


@pytest.mark.parametrize(
    ("name", "function"),
    [("shop", "versions"), ("pageviews", "arrivals"), ("leaderboard", "scores"), ("wholesale", "changes")],
)
def test_a_seed_always_makes_the_same_data(name: str, function: str) -> None:
    make = getattr(part(name, "data"), function)
    assert list(make(200, 1)) == list(make(200, 1)) != list(make(200, 2))


def test_the_data_has_what_it_is_about() -> None:
    orders = list(part("shop", "data").versions(1_000))
    assert {order["status"] for order in orders} == {"placed", "paid", "cancelled"}
    assert any(order["ts"] == 0 for order in orders), "some come late"
    views = list(part("pageviews", "data").arrivals(1_000))
    assert len(views) > 1_000, "some come twice"
    assert views != sorted(views, key=lambda view: view["at"]), "some come late"
    scores = list(part("leaderboard", "data").scores(1_000))
    assert len({score["id"] for score in scores}) < 1_000, "some are corrected"
    coming = list(part("wholesale", "data").changes(1_000))
    known = {document["id"] for table, document in coming if table == "customers"}
    assert len(known) < len([1 for table, _ in coming if table == "customers"]), "some move"
    assert any(d["customer"] not in known for table, d in coming if table == "orders"), "some never come"
