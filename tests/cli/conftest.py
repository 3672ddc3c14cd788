"""Fixtures: an app in a folder of its own, which is the current one, and a function that runs commands there."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest
from click.testing import CliRunner, Result

from penstock.cli.program import group

APP = """
import penstock as ps

app = ps.App("shop")
users = app.table("users", key="id", ts="ts")
namecount = users.view("namecount", key="name", reduce=ps.count())
ages = users.view("ages", key=("country", "name"), reduce={"n": ps.count(), "mean": ps.mean("age")})
adults = users.view("adults", key="country", where=ps.field("age") >= 18, reduce=ps.count())
marks = app.table("marks", key=("shop", "number"), merge="patch")
total = marks.view("total", key=(), value="mark", reduce=ps.sum())


@users.view(reduce=ps.count())
def initials(user):
    yield user["name"][0]


@namecount.view(reduce=ps.sum())
def by_length(row):
    yield len(row.key), row.value
"""

USERS = (
    '{"id": 1, "name": "Sue", "country": "NO", "age": 40, "ts": 1}',
    '{"id": 2, "name": "Joe", "country": "NO", "age": 30, "ts": 1}',
    '{"id": 3, "name": "Joe", "country": "SE", "age": 9, "ts": 1}',
)


class Run(Protocol):
    """A function that runs a command in this process."""

    def __call__(self, *args: str, code: int | None = 0, stdin: str | None = None) -> Result: ...


@pytest.fixture
def workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make an empty folder the current one. Undo the app's changes of this process after the test."""
    monkeypatch.chdir(tmp_path)
    for name in ("PENSTOCK_APP", "PENSTOCK_STORE", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    path, modules = list(sys.path), set(sys.modules)
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture
def run(workdir: Path) -> Run:
    """Return a function that runs commands. `code` is the expected exit code, None for any."""

    def run(*args: str, code: int | None = 0, stdin: str | None = None) -> Result:
        result = CliRunner().invoke(group, args, input=stdin, prog_name="penstock")
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert code is None or result.exit_code == code, (result.exit_code, result.output)
        return result

    return run


@pytest.fixture
def shop(workdir: Path) -> Path:
    """Return the folder with an app.py and no store."""
    (workdir / "app.py").write_text(APP)
    return workdir


@pytest.fixture
def filled(shop: Path, run: Run) -> Path:
    """Return the folder with an app.py, and a store with three users."""
    run("put", "users", *USERS)
    return shop
