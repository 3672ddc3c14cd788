"""Crash tests of the user's app, reported as a test runner does."""

from __future__ import annotations

import importlib
import os
import shlex
from typing import Any

import click

from penstock.cache import PenstockError
from penstock.cli.command_frame import command, load_app, table_of
from penstock.cli.context import APP, DONE, NO, WRONG, Context
from penstock.cli.exit_errors import Fault
from penstock.testing import Totals, crashtest, seconds_of
from penstock.views import App

SEEDS_FILE = "crashtest.seeds"
_SHOWN_EVERY = 0.2


@command(
    "crashtest",
    app=True,
    examples=[
        "penstock crashtest",
        "penstock crashtest --budget 5m",
        "penstock crashtest --docs orders=more_orders.jsonl --docs users=strategies:users",
        "penstock crashtest --seed 4711",
    ],
)
@click.option("--seeds", type=click.IntRange(1), metavar="N", help="How many seeds, at most.")
@click.option("--budget", metavar="TIME", help="How long, at most: 60s, 5m (20s where no --seeds says how many).")
@click.option("--seed", type=click.IntRange(0), metavar="N", help="This seed alone, again.")
@click.option("--first", type=click.IntRange(0), default=0, metavar="N", help="The first seed, to go on after others.")
@click.option(
    "--docs",
    multiple=True,
    metavar="TABLE=FILE",
    help="Documents like those of FILE, or of MODULE:NAME: a Hypothesis strategy, or a function of a random.Random.",
)
def crashtest_(
    ctx: Context, seeds: int | None, budget: str | None, seed: int | None, first: int, docs: tuple[str, ...]
) -> int:
    """Crash the app at every place, power loss and full disk included, and check after each that its views are true.

    First the laws of maps and reducers are tried: a map that is not the same twice, a merge that depends on the order,
    a result that another process does not give.
    Then documents are made like those of each table's `sample=` file, delivered late, twice and in many batches to the
    real engine on a simulated disk, which crashes wherever it can. What fails is cut down to the smallest story that
    fails, and told. Seeds that failed are kept in crashtest.seeds beside the app, and come first.
    """
    app = load_app(ctx)
    folder = _folder(ctx.app)
    meter = _Meter(ctx)
    report = crashtest(
        app,
        _given(app, docs) or None,
        seeds=seeds,
        budget=None if budget is None else _time(budget),
        first=first,
        seed=seed,
        remembered=os.path.join(folder, SEEDS_FILE),
        folder=folder,
        progress=meter.show,
    )
    meter.clear()
    report.replay = " ".join(["penstock", "crashtest", *_again(ctx, docs), "--seed {seed}"])
    click.echo(str(report))
    return DONE if report.ok else NO


class _Meter:
    """A line on a terminal that says how far it is."""

    def __init__(self, ctx: Context) -> None:
        self._on = ctx.terminal and not ctx.quiet
        self._last = 0.0

    def show(self, totals: Totals) -> None:
        """So far, now and then."""
        if self._on and totals.seconds - self._last >= _SHOWN_EVERY:
            self._last = totals.seconds
            click.echo(f"\r{totals.seeds:,} seeds, {totals.faults:,} faults ", nl=False, err=True)

    def clear(self) -> None:
        """Take the line away."""
        if self._last:
            click.echo("\r\x1b[K", nl=False, err=True)


def _again(ctx: Context, docs: tuple[str, ...]) -> list[str]:
    """What must stand on the command line again for a seed to mean the same."""
    app = [] if ctx.app == APP else ["--app", shlex.quote(ctx.app)]
    return [*app, *(part for text in docs for part in ("--docs", shlex.quote(text)))]


def _time(text: str) -> float:
    try:
        return seconds_of(text)
    except PenstockError as error:
        raise Fault(f"--budget: {error}", WRONG) from None


def _folder(spec: str) -> str:
    """Where the app's file is."""
    path = spec if os.path.exists(spec) else spec.rpartition(":")[0]
    return os.path.dirname(os.path.abspath(path))


def _given(app: App, docs: tuple[str, ...]) -> dict[str, Any]:
    """By table, what documents are to be like."""
    found: dict[str, Any] = {}
    for text in docs:
        name, equals, where = text.partition("=")
        if not equals or not where:
            raise Fault(f"--docs {text!r} names no table; write --docs TABLE=FILE or TABLE=MODULE:NAME", WRONG)
        table_of(app, name)
        module, colon, attribute = where.partition(":")
        found[name] = where if os.path.exists(where) or not colon else _named(module, attribute)
    return found


def _named(module: str, attribute: str) -> Any:
    """What a module calls so."""
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise Fault(f"--docs can't find {module}:{attribute}: {error}; check the name", WRONG) from None
