"""Commands for copies: copy a store, restore a copy, release space."""

from __future__ import annotations

import os

import click

from penstock.cache import StoreInUse, StoreMissing, size_text
from penstock.cli.command_frame import command, folders, load_app, open_writer
from penstock.cli.context import WRONG, Context
from penstock.cli.exit_errors import ExitError
from penstock.cli.progress import parts
from penstock.engine import Copied, copy_any, is_store, restore_any, shrink


@command(
    "snapshot",
    store=True,
    examples=["penstock snapshot backups/monday", "penstock snapshot backups/monday --store state -q"],
)
@click.argument("folder", metavar="DIR", type=click.Path(), shell_complete=folders)
def snapshot(ctx: Context, folder: str) -> None:
    """Copy the store into DIR while others write it. DIR must be absent or empty.

    The copy is the store at one moment. It gets its name after every page and row of it was read back. The copy is a
    store itself: --store DIR reads it, and `penstock restore DIR` makes a store of it. It has no free pages, so it is
    often smaller than the store.
    """
    with parts(ctx) as tell:
        done = copy_any(ctx.store, folder, tell)
    ctx.say(f"{folder}: {_result_line(done)}, checked")


@command(
    "restore",
    store=True,
    examples=["penstock restore backups/monday --store state", "penstock restore backups/monday --force"],
)
@click.argument("folder", metavar="DIR", type=click.Path(), shell_complete=folders)
@click.option("--force", is_flag=True, help="Replace a store with content too. That content is lost.")
def restore(ctx: Context, folder: str, force: bool) -> None:
    """Replace the store with the copy in DIR.

    The copy is first written beside the store and read back. Then it replaces the store in one step. No other process
    may have the store open. The copy and the store may have any number of partitions. The store then has as many as the
    copy. DIR may also be the state of a stream on Spark. Then the store must be new.
    """
    if os.path.isfile(os.path.join(folder, "state.json")):
        _restore_state(ctx, folder)
        return
    try:
        with parts(ctx) as tell:
            done = restore_any(folder, ctx.store, force, tell)
    except StoreMissing as error:
        raise ExitError(f"{error.path} has no copy of a store; `penstock snapshot DIR` makes one", WRONG) from None
    ctx.say(f"{ctx.store}: {_result_line(done)}, from {folder}")


def _restore_state(ctx: Context, uri: str) -> None:
    """Make a store of the state of a stream on Spark."""
    from penstock.spark import restore_state  # imports the modules of Spark's jobs

    if is_store(ctx.store):
        raise ExitError(f"{ctx.store} is a store already; name a new folder with --store", WRONG)
    with parts(ctx) as tell:
        done = restore_state(uri, ctx.store, tell)
    ctx.say(f"{ctx.store}: batch {done.batch} of {uri}, {len(done.partitions)} partitions")


@command("compact", app=True, store=True, examples=["penstock compact"])
def compact(ctx: Context) -> None:
    """Release the space of old versions, and forget deletions beyond the app's tombstones=.

    Others may read and write meanwhile. Later writes use the released space. The file itself becomes smaller only if no
    other process has it open.
    """
    if not is_store(ctx.store):
        raise StoreMissing(ctx.store)
    app = load_app(ctx)
    with open_writer(ctx, app) as writer, parts(ctx) as tell:
        done = writer.compact(lambda passed, of: tell("compacting", passed, of))
    ctx.say(f"rows: {size_text(done.before)} before, {size_text(done.after)} now")
    ctx.say(f"gone: {done.records:,} old versions, {done.tombstones:,} deletions")
    ctx.say(_file(ctx, done.file, done.after, own_writer=writer.holder is None))


def _file(ctx: Context, size: int, used: int, own_writer: bool) -> str:
    """Shrink the file if possible. Return a line with its size, or with the reason why it stays as large."""
    if own_writer:
        try:
            with parts(ctx) as tell:
                now = shrink(ctx.store, tell)
        except StoreInUse:  # another writer was quicker
            now = None
        if now is not None:
            return f"file: {size_text(size)} before, {size_text(now)} now"
    free = max(0, size - used)
    if 10 * free < size:
        return f"file: {size_text(size)}"
    return (
        f"file: {size_text(size)}, of which {size_text(free)} are free for later writes; to shrink it, compact "
        "while no other process has the store open"
    )


def _result_line(done: Copied) -> str:
    positions = (done.position,) if isinstance(done.position, int) else done.position
    return f"{size_text(done.bytes)} of app {done.app}, position {' + '.join(f'{own:,}' for own in positions)}"
