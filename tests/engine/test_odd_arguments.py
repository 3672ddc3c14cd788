"""Odd arguments of the public API: a short run of the hunt, faults that it must find, and calls by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.engine import Engine
from penstock.sink import SinkTaken, open_file
from penstock.spout import SourceMissing, file_size
from penstock.views import ViewReader
from tests.engine import odd_arguments
from tests.engine.odd_arguments import HOW, hunt

CALLS, SEED = 3_000, 7


def test_every_odd_call_ends_as_documented(tmp_path: Path) -> None:
    kinds = [kind for kind in HOW if kind != "processes"]
    found, shown = hunt(kinds, CALLS, SEED, tmp_path)
    assert not found, "\n\n".join(shown)


@pytest.mark.parametrize(("owner", "name"), [(Engine, "ingest"), (Engine, "check"), (ViewReader, "items")])
def test_a_call_that_checks_nothing_is_found(
    owner: type, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unchecked: Callable[..., Any] = getattr(owner, name).__wrapped__
    monkeypatch.setattr(owner, name, unchecked)
    found, _ = hunt(["store"], CALLS, SEED, tmp_path)
    assert any(name in where for where in found), found


def test_a_function_that_checks_nothing_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unchecked: Any = odd_arguments.restore_any
    monkeypatch.setattr(odd_arguments, "restore_any", unchecked.__wrapped__)
    found, _ = hunt(["store"], CALLS, SEED, tmp_path)
    assert any("restore_any" in where for where in found), found


def test_a_name_that_no_file_can_have_is_named(tmp_path: Path) -> None:
    for path in ("a\0b", "\ud800"):
        with pytest.raises(SourceMissing, match="no file can have this name"):
            file_size(path)
        with pytest.raises(SinkTaken, match="no file can have this name"):
            open_file(path, "v", "value", str)
    with pytest.raises(SourceMissing, match="file name too long"):
        file_size("x" * 5_000)


@pytest.fixture(params=[None, 2])
def engine(request: pytest.FixtureRequest) -> Iterator[Any]:
    app = ps.App("shop")
    app.table("t", key="id").view("v", key="g", reduce=ps.count())
    how: dict[str, Any] = {"partitions": request.param} if request.param else {}
    with ps.open(app, None, **how) as engine:
        yield engine


CASES: list[tuple[Callable[[Any], Any], str]] = [
    (lambda e: e.put(None, {}), "by its name, not by None"),
    (lambda e: e.put([], {}), "by its name"),
    (lambda e: e.ingest([], "s:0", 2**80), "resume= is"),
    (lambda e: e.ingest([], "\ud800", 1), "surrogate pair"),
    (lambda e: e.ingest([{"id": 1}], "s:0", 1), "ps.Record"),
    (lambda e: e.check(progress=7), "progress= is 7"),
    (lambda e: e.check(progress=lambda: None), "give a function"),
    (lambda e: e.changes("v", early="yes"), "early= is 'yes'"),
    (lambda e: e.changes("v", since=2**80), "since= is"),
    (lambda e: e.copy(b"x"), "folder= is"),
    (lambda e: e.snapshot().view("v").items(limit=True), "limit= is True"),
    (lambda e: e.snapshot().as_of("w"), "'w'"),
]


@pytest.mark.parametrize(("call", "message"), CASES)
def test_the_error_names_the_argument(engine: Any, call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(ps.PenstockError, match=message):
        call(engine)
