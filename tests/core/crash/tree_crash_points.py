"""The process that writes trees and counts its commits: `crash_points` for views that keep contributions.

    python -m tests.core.crash.tree_crash_points PATH BATCHES SIZE          leaves an image of the store at each commit
    python -m tests.core.crash.tree_crash_points PATH BATCHES SIZE 7 18 …   is killed there

Nodes hold two contributions. The process writes them after a few batches in the node log. It folds no documents, so two
commits differ in trees alone. A batch is a function of its number.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import penstock as ps
from penstock.cache import Limits
from penstock.mapreduce import small_trees
from tests.core.crash import crash_points as points
from tests.harness.worlds import World
from tests.mapreduce.trees.tree_histories import KEYS, document
from tests.mapreduce.trees.tree_worlds import PLAIN, USERS, VIEWS
from tests.oracle.model import Record

SOURCE = "crash"
WHOLE = Limits()
MOST_ITEMS = 60  # the node log has some batches before nodes are written
KEPT = ("greatest", "spread", "kept", "listed", "words", "told", "mixed", "over")
WORLD = World((USERS, PLAIN), tuple(view for view in VIEWS if view.name in KEPT))


def records(number: int, size: int) -> Iterator[Record]:
    """Yield the records of one batch. Every sixth batch first deletes most documents."""
    choose = Random(number)
    for key in KEYS if number % 6 == 5 else ():
        if choose.random() < 0.8:
            yield Record("users", key, None, number, number)
            yield Record("plain", key, None, None, number)
    for _ in range(size):
        table = choose.choice(["users", "plain"])
        doc = document(table, choose, number, wrong=False)
        gone = choose.random() < 0.2
        ts = number if table == "users" else None
        yield Record(table, doc["id"], None if gone else doc, ts if gone else None, number)


def batch(number: int, size: int) -> list[ps.Record]:
    """Return the records of one batch in the form of the engine."""
    return [ps.Record(r.table, r.key, r.doc, ts=r.ts, offset=r.offset) for r in records(number, size)]


def write(engine: Any, first: int, batches: int, size: int) -> Iterator[int]:
    """Put batches. Yield each number when the batch is acknowledged."""
    for number in range(first, batches):
        engine.ingest(batch(number, size), source=SOURCE, resume=number + 1)
        yield number + 1


WRITING = points.Writing(WORLD.app, write, WHOLE, lambda: small_trees(most_bytes=1 << 20, most_items=MOST_ITEMS))


if __name__ == "__main__":
    points.main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), [int(point) for point in sys.argv[4:]], WRITING)
