"""Copies of a store, a store from a copy, and giving back space."""

from __future__ import annotations

import click

from penstock.cache import StoreInUse, StoreMissing, shown_size
from penstock.cli.command_frame import command, folders, load_app, open_writer
from penstock.cli.context import WRONG, Context
from penstock.cli.exit_errors import Fault
from penstock.cli.progress import parts
from penstock.engine import Copied, copy_any, is_store, restore_any, shrink


@command(
    "snapshot",
    store=True,
    examples=["penstock snapshot backups/monday", "penstock snapshot backups/monday --store state -q"],
)
@click.argument("folder", metavar="DIR", type=click.Path(), shell_complete=folders)
def snapshot(ctx: Context, folder: str) -> None:
    """Copy the store into DIR, a folder that is not there yet or empty, while others write it.

    The copy is what the store was at one moment, and is read back, every page and row of it, before it gets its name.
    It is a store itself: --store DIR reads it, and `penstock restore DIR` makes a store of it. It has no free pages, so
    it is often smaller than the store.
    """
    with parts(ctx) as tell:
        done = copy_any(ctx.store, folder, tell)
    ctx.say(f"{folder}: {_said(done)}, checked")


@command(
    "restore",
    store=True,
    examples=["penstock restore backups/monday --store state", "penstock restore backups/monday --force"],
)
@click.argument("folder", metavar="DIR", type=click.Path(), shell_complete=folders)
@click.option("--force", is_flag=True, help="Also where the store has content, which is lost.")
def restore(ctx: Context, folder: str, force: bool) -> None:
    """Make the store what the copy in DIR is.

    The copy is read back first, where it is put; then it takes the place of what was there all at once. No other
    process may have the store open. The copy and the store may have any number of partitions. The store then has as
    many as the copy.
    """
    try:
        with parts(ctx) as tell:
            done = restore_any(folder, ctx.store, force, tell)
    except StoreMissing as error:
        raise Fault(f"{error.path} has no copy of a store; `penstock snapshot DIR` makes one", WRONG) from None
    ctx.say(f"{ctx.store}: {_said(done)}, from {folder}")


@command("compact", app=True, store=True, examples=["penstock compact"])
def compact(ctx: Context) -> None:
    """Give back the space of old versions, and forget the deletions that the app's tombstones= lets go.

    Others may read and write meanwhile. What is given back is used again by what is put later; the file itself becomes
    smaller only while no other process has it open.
    """
    if not is_store(ctx.store):
        raise StoreMissing(ctx.store)
    app = load_app(ctx)
    with open_writer(ctx, app) as writer, parts(ctx) as tell:
        done = writer.compact(lambda passed, of: tell("compacting", passed, of))
    ctx.say(f"rows: {shown_size(done.before)} before, {shown_size(done.after)} now")
    ctx.say(f"gone: {done.records:,} old versions, {done.tombstones:,} deletions")
    ctx.say(_file(ctx, done.file, done.after, here=writer.holder is None))


def _file(ctx: Context, size: int, used: int, here: bool) -> str:
    """What became of the file, or why it stays as large as it is."""
    if here:
        try:
            with parts(ctx) as tell:
                now = shrink(ctx.store, tell)
        except StoreInUse:  # another writer was quicker
            now = None
        if now is not None:
            return f"file: {shown_size(size)} before, {shown_size(now)} now"
    free = max(0, size - used)
    if 10 * free < size:
        return f"file: {shown_size(size)}"
    return (
        f"file: {shown_size(size)}, of which {shown_size(free)} are free for what comes; to have it smaller, compact "
        "while no other process has the store open"
    )


def _said(done: Copied) -> str:
    positions = (done.position,) if isinstance(done.position, int) else done.position
    return f"{shown_size(done.bytes)} of app {done.app}, position {' + '.join(f'{own:,}' for own in positions)}"
