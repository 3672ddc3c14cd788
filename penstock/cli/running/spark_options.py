"""The options of `penstock run` that are for a stream on Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

import click

__all__ = ["SparkOptions", "spark_options"]


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """The values of these options; None for one that was not given."""

    on: str | None
    state: str | None
    spark: str | None
    partitions: int | None
    interval: str | None
    batch: int | None
    local: str | None
    until_end: bool | None

    def given(self) -> list[str]:
        """Return the options that were given, without `--on`."""
        names = [name for name in _NAMES if name != "on" and getattr(self, name) is not None]
        return [f"--{name.replace('_', '-')}" for name in names]


_NAMES = tuple(SparkOptions.__annotations__)
_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option("--on", type=click.Choice(["spark"]), help="Run on Spark Structured Streaming, over a state."),
    click.option("--state", metavar="URI", help="With --on spark: the folder of the state, which all hosts mount."),
    click.option("--spark", metavar="MASTER", help="With --on spark: its master (all cores of this machine)."),
    click.option("--partitions", type=click.IntRange(1, 256), help="With --on spark: those of a new state (16)."),
    click.option("--interval", metavar="TIME", help="With --on spark: the time between two batches (1 second)."),
    click.option("--batch", type=click.IntRange(min=1), help="With --on spark: the most records of a batch (1000000)."),
    click.option("--local", metavar="DIR", help="With --on spark: the folder for local copies on each host."),
    click.option(
        "--until-end",
        is_flag=True,
        flag_value=True,
        default=None,
        help="With --on spark: stop when all records are in the state.",
    ),
)


def spark_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add these options to a command, which gets them as its argument `options`."""

    @wraps(command)
    def with_options(*args: Any, **named: Any) -> int:
        own = {name: named.pop(name) for name in _NAMES}
        return command(*args, **named, options=SparkOptions(**own))

    for option in reversed(_OPTIONS):
        option(with_options)
    return with_options
