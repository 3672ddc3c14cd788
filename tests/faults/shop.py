"""The app whose store the faults strike, and the checks of the store after each fault.

It is the app of the crash tests, with added views that keep contributions, and an index. Trees have small nodes, and
apply their items a few batches later. Tables fold their index and compact after a handful of documents. Batches are
functions of their numbers, so a check knows the content to expect.

    python -m tests.faults.shop PATH DURABILITY FIRST BATCHES SIZE

puts batches, or single documents by tickets if SIZE is 0. It prints each number that is acknowledged.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import penstock as ps
from penstock.mapreduce import small_trees
from penstock.views import ABSENT
from tests.core.crash import crash_writer as writer
from tests.harness.checks import check, check_recompute, differences, rows_of
from tests.harness.histories import small_buckets
from tests.harness.worlds import SHOP, TINY, World
from tests.oracle import ordered as by
from tests.oracle.model import Model
from tests.oracle.views import View
from tests.waiting import PATIENCE

KEPT = (
    View("ranks", "users", {"most": by.Max("amount"), "some": by.Bottom("amount", 2)}, key="name"),
    View("listed", "orders", None, key="city"),
)
WAITING = 12  # tickets
WORLD = World(SHOP.tables, (*SHOP.views, *KEPT))


@contextmanager
def opened(path: Path | None, durability: str = "sync") -> Iterator[Any]:
    """Open the engine at a path, with small limits for everything."""
    with ExitStack() as stack:
        stack.enter_context(small_buckets())
        stack.enter_context(small_trees(most_bytes=1 << 20, most_items=40))
        yield stack.enter_context(ps.open(WORLD.app(), path, durability=durability, limits=TINY, listen=False))


@lru_cache(maxsize=256)
def model_after(batches: int, size: int) -> Model:
    """Return the oracle after this number of batches."""
    model = WORLD.model()
    for number in range(batches):
        model.ingest(list(writer.records(number, size)), writer.SOURCE, number + 1)
    return model


@lru_cache(maxsize=8)
def digest_after(batches: int, size: int) -> str:
    """Return the digest of a store in memory after this number of batches."""
    with opened(None) as engine:
        for _ in writer.write(engine, 0, batches, size):
            pass
        return engine.digest()


@lru_cache(maxsize=256)
def model_of_puts(documents: int) -> Model:
    """Return the oracle after this number of single puts."""
    model = WORLD.model()
    model.put_many("users", [writer.document(number) for number in range(documents)])
    return model


def check_shown(engine: Any, model: Model) -> None:
    """Check that documents and views equal the oracle's and a recomputation, and that the feed leads to them."""
    check(engine, model)
    check_recompute(engine, model)
    check_feed(engine, model)


def check_feed(engine: Any, model: Model) -> None:
    """Check that the feed's changes, applied from the start, produce every view."""
    rows: dict[str, dict[Any, Any]] = {name: {} for name in model.views}
    for change in engine.changes(since=0):
        before = rows[change.view].pop(change.group, ABSENT)
        assert repr(before) == repr(change.old), f"{change.view}, {change.group!r}: fed twice, or not at all"
        if change.new is not ABSENT:
            rows[change.view][change.group] = change.new
    for name, own in rows.items():
        wanted = rows_of(model, name)
        found = differences(name, [(key, own.get(key, ABSENT)) for key, _ in wanted], wanted)
        assert not found, f"the feed of {found}"
        assert len(own) == len(wanted), f"the feed of {name} has groups that are gone"


def check_batches(path: Path, least: int, batches: int, size: int) -> int:
    """Check a store after this number of acknowledged batches. Return the number of stored batches."""
    with opened(path) as engine:
        with engine.snapshot() as snap:
            done = int(snap.sources.get(writer.SOURCE, 0))
        assert least <= done <= least + 1, f"{least} batches were acknowledged, {done} are in"
        check_shown(engine, model_after(done, size))
        for _ in writer.write(engine, done, batches, size):
            pass
        assert engine.digest() == digest_after(batches, size)
    return done


def check_puts(path: Path, least: int) -> int:
    """Check a store after single puts: the stored documents are the first ones, without a gap. Return their number."""
    with opened(path) as engine:
        with engine.snapshot() as snap:
            stored = sorted(key for key, _ in snap.table("users").items())
        assert stored == list(range(len(stored))), "a document is missing before one that is there"
        assert least <= len(stored), f"{least} documents were acknowledged, {len(stored)} are in"
        check_shown(engine, model_of_puts(len(stored)))
        assert engine.put("users", writer.document(len(stored))).applied == 1
        check_shown(engine, model_of_puts(len(stored) + 1))
    return len(stored)


def main(path: str, durability: str, first: str, batches: str, size: str) -> None:
    """Put batches, and print the number of each."""
    with opened(Path(path), durability) as engine:
        small = int(size)
        put = writer.write(engine, int(first), int(batches), small) if small else puts(engine, int(batches))
        for done in put:
            print(done, flush=True)


def puts(engine: Any, documents: int) -> Iterator[int]:
    """Put documents by tickets, some in flight at a time. Yield each number when its ticket is done."""
    waiting: deque[tuple[int, Any]] = deque()
    for number in range(documents):
        waiting.append((number + 1, engine.put("users", writer.document(number))))
        while waiting and (waiting[0][1].done() or len(waiting) > WAITING):
            done, ticket = waiting.popleft()
            ticket.result(timeout=PATIENCE)
            yield done


if __name__ == "__main__":
    main(*sys.argv[1:])
