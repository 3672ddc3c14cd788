"""Parting a store anew: one of another number of partitions."""

from __future__ import annotations

import click

from penstock.cache import shown_size
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
@click.option("--to", type=click.IntRange(min=1), required=True, metavar="M", help="How many partitions it is to have.")
def repartition(ctx: Context, to: int) -> None:
    """Make the store one of M partitions, each with the same share of all keys.

    Documents, rows of views and what is kept of them are moved as they are: no function is run, and the digest stays.
    No other process may have the store open, and the disk must have room for all of it once more. Whatever ends this on
    the way leaves the store as it was, or as it is to be; run it again then, which clears what was left.

    The feed of changes begins anew: a position from before is expired, and views are read first by whoever follows.
    """
    with parts(ctx) as tell:
        done = parted(ctx.store, to, tell)
    if done.before == done.after:
        ctx.say(f"{ctx.store}: has {_many(to)} already")
        return
    ctx.say(f"{ctx.store}: {_many(done.after)}, {_many(done.before)} before")
    for i, (documents, size) in enumerate(zip(done.documents, done.bytes, strict=True)):
        ctx.detail(f"partition {i}: {documents:,} documents, {shown_size(size)}")


def _many(partitions: int) -> str:
    return f"{partitions} partition{'' if partitions == 1 else 's'}"
