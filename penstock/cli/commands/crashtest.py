"""The command for crash tests of the user's app. It reports in the style of a test runner."""

from __future__ import annotations

import importlib
import os
import shlex
from typing import Any

import click

from penstock.cache import PenstockError
from penstock.cli.command_frame import command, load_app, table_of
from penstock.cli.context import APP, DONE, NO, WRONG, Context
from penstock.cli.exit_errors import ExitError
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
@click.option("--seeds", type=click.IntRange(1), metavar="N", help="Run at most N seeds.")
@click.option("--budget", metavar="TIME", help="Run for at most this time: 60s, 5m (20s without --seeds).")
@click.option("--seed", type=click.IntRange(0), metavar="N", help="Run only this seed again.")
@click.option(
    "--first", type=click.IntRange(0), default=0, metavar="N", help="The first seed, to continue an earlier run."
)
@click.option(
    "--docs",
    multiple=True,
    metavar="TABLE=FILE",
    help="Documents like those of FILE, or of MODULE:NAME: a Hypothesis strategy, or a function of a random.Random.",
)
def crashtest_(
    ctx: Context, seeds: int | None, budget: str | None, seed: int | None, first: int, docs: tuple[str, ...]
) -> int:
    """Crash the app at every place, also with power loss and full disk, and check its views after each crash.

    First the laws of maps and reducers are tested. They find a map with two results for one document, a merge that
    depends on the order, and a result that another process doesn't give.

    Then documents like those of each table's `sample=` file are delivered to the real engine on a simulated disk. They
    come late, twice and in many batches, and the disk crashes wherever it can. A failure is reduced to the smallest
    story that fails. Seeds that failed are stored in crashtest.seeds beside the app, and run first next time.
    """
    app = load_app(ctx)
    folder = _folder(ctx.app)
    meter = _Meter(ctx)
    report = crashtest(
        app,
        _trial_inputs(app, docs) or None,
        seeds=seeds,
        budget=None if budget is None else _time(budget),
        first=first,
        seed=seed,
        remembered=os.path.join(folder, SEEDS_FILE),
        folder=folder,
        progress=meter.show,
    )
    meter.clear()
    report.replay = " ".join(["penstock", "crashtest", *_repeated_options(ctx, docs), "--seed {seed}"])
    click.echo(str(report))
    return DONE if report.ok else NO


class _Meter:
    """A line on a terminal with the progress."""

    def __init__(self, ctx: Context) -> None:
        self._on = ctx.terminal and not ctx.quiet
        self._last = 0.0

    def show(self, totals: Totals) -> None:
        """Show the totals, at most every 0.2 s."""
        if self._on and totals.seconds - self._last >= _SHOWN_EVERY:
            self._last = totals.seconds
            click.echo(f"\r{totals.seeds:,} seeds, {totals.faults:,} faults ", nl=False, err=True)

    def clear(self) -> None:
        """Erase the line."""
        if self._last:
            click.echo("\r\x1b[K", nl=False, err=True)


def _repeated_options(ctx: Context, docs: tuple[str, ...]) -> list[str]:
    """Return the options that a later command needs to repeat a seed."""
    app = [] if ctx.app == APP else ["--app", shlex.quote(ctx.app)]
    return [*app, *(part for text in docs for part in ("--docs", shlex.quote(text)))]


def _time(text: str) -> float:
    try:
        return seconds_of(text)
    except PenstockError as error:
        raise ExitError(f"--budget: {error}", WRONG) from None


def _folder(spec: str) -> str:
    """Return the folder of the app's file."""
    path = spec if os.path.exists(spec) else spec.rpartition(":")[0]
    return os.path.dirname(os.path.abspath(path))


def _trial_inputs(app: App, docs: tuple[str, ...]) -> dict[str, Any]:
    """Return the examples of documents for each table, as `--docs` names them."""
    found: dict[str, Any] = {}
    for text in docs:
        name, equals, where = text.partition("=")
        if not equals or not where:
            raise ExitError(f"--docs {text!r} names no table; write --docs TABLE=FILE or TABLE=MODULE:NAME", WRONG)
        table_of(app, name)
        module, colon, attribute = where.partition(":")
        found[name] = where if os.path.exists(where) or not colon else _named(module, attribute)
    return found


def _named(module: str, attribute: str) -> Any:
    """Return the object of this name in a module."""
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ExitError(f"--docs can't find {module}:{attribute}: {error}; check the name", WRONG) from None
