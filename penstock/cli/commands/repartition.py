"""The command that gives a store another number of partitions."""

from __future__ import annotations

import click

from penstock.cache import size_text
from penstock.cli.command_frame import command
from penstock.cli.context import Context
from penstock.cli.progress import parts
from penstock.engine import repartition as parted


@command(
    "repartition",
    store=True,
    examples=[
        "penstock repartition --to 4",
        "penstock repartition --to 1 --store state",
    ],
)
@click.option("--to", type=click.IntRange(min=1), required=True, metavar="M", help="The number of partitions.")
def repartition(ctx: Context, to: int) -> None:
    """Turn the store into one of M partitions, each with an equal share of all keys.

    Documents, view rows and emissions are copied unchanged: no function runs, and the digest stays the same. No other
    process may have the store open. The disk needs room for a second copy of the store. If the command is interrupted,
    the store has either the former or the new partitions. Run it again to remove the remaining files.

    The feed of changes starts again: earlier positions have expired, and followers read the views first.
    """
    with parts(ctx) as tell:
        done = parted(ctx.store, to, tell)
    if done.before == done.after:
        ctx.say(f"{ctx.store}: has {_many(to)} already")
        return
    ctx.say(f"{ctx.store}: {_many(done.after)}, {_many(done.before)} before")
    for i, (documents, size) in enumerate(zip(done.documents, done.bytes, strict=True)):
        ctx.detail(f"partition {i}: {documents:,} documents, {size_text(size)}")


def _many(partitions: int) -> str:
    return f"{partitions} partition{'' if partitions == 1 else 's'}"
