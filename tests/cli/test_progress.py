"""The progress of long work, on a terminal and elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli.context import Context
from penstock.cli.progress import Bar, progress

from .conftest import Run
from .terminal import Terminal


def work(bar: Bar) -> None:
    for _ in range(4):
        bar.advance(25, 100)


def ticks() -> Iterator[float]:
    now = 0.0
    while True:
        yield now
        now += 1.5


def test_lines_come_now_and_then_where_they_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    time = ticks()
    with progress(Context(verbose=True), "users.jsonl", 100, clock=lambda: next(time)) as bar:
        work(bar)
    with progress(Context(verbose=True), "-", None, clock=lambda: next(time)) as bar:
        work(bar)
        bar.total(400)
        work(bar)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "users.jsonl: 50 %, 200 records, 67/s, 3 s left",
        "users.jsonl: 100 %, 400 records, 67/s, 0 s left",
        "-: 200 records, 67/s",
        "-: 400 records, 67/s",
        "-: 37 %, 600 records, 67/s, 15 s left",
        "-: 50 %, 800 records, 67/s, 12 s left",
    ]


@pytest.mark.parametrize("ctx", [Context(), Context(quiet=True, verbose=True)])
def test_nothing_is_said_where_nobody_asked(ctx: Context, capsys: pytest.CaptureFixture[str]) -> None:
    with progress(ctx, "users.jsonl", 100) as bar:
        work(bar)
        bar.total(None)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_has_a_bar_and_lines_stand_above_it(filled: Path, run: Run) -> None:
    lines = [f'{{"id": {i}, "name": "n{i}", "ts": 2}}\n' for i in range(20_000)]
    (filled / "users.jsonl").write_text("".join([*lines[:500], "{broken\n", *lines[500:]]))
    with Terminal("load", "users", "users.jsonl", cwd=filled) as terminal:
        terminal.until("users.jsonl ")
        terminal.until("100%")
        terminal.until("/s")
        assert terminal.end() == 1
    shown = terminal.plain().splitlines()
    assert [line for line in shown if line.startswith("users.jsonl: 20,000 applied, 1 rejected")]
    assert [line for line in shown if line.startswith("rejected: users.jsonl, line 501: ")]
    assert "━" in terminal.seen


def test_quiet_draws_no_bar(filled: Path) -> None:
    (filled / "users.jsonl").write_text('{"id": 9, "name": "A", "ts": 2}\n')
    with Terminal("-q", "load", "users", "users.jsonl", cwd=filled) as terminal:
        assert terminal.end() == 0
    assert terminal.seen == ""
