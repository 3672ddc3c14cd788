"""A process that follows the feed from the current rows, until the view `end` has a row.

    python -m tests.core.reading.follower PATH

It prints each change as a JSON array: view, group, old, new, position.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import penstock as ps

KEYS = 400
NAMES = ["Sue", "Joe", "Bob", "Ann", "Bobby", "Susannah"]
Doc = dict[str, Any]


def app(later: bool = False) -> ps.App:
    """Return the app, or its later form: one view stays, the view on it changes, others change, come and go."""
    out = ps.App("followed")
    users = out.table("users", key="id")
    kept = users.view("kept", key="n", reduce=ps.count())
    kept.view("over", key="value", reduce=ps.max("key") if later else ps.count())
    width = 1 if later else 3

    @users.view("names", reduce={"n": ps.count(), "s": ps.sum()})
    def names(user: Doc) -> Iterator[Any]:
        yield user["name"][:width], user["n"]

    names.view("sizes", key="value.n", reduce=ps.count())
    users.view("new" if later else "old", key="name", reduce=ps.max("n"))
    users.view("means", key="name", value="n", reduce=ps.mean())
    out.table("marks", key="id").view("end", key="id", reduce=ps.count())
    return out


def document(choose: Random) -> Doc:
    """Return a version of a random document."""
    return {"id": choose.randrange(KEYS), "name": choose.choice(NAMES), "n": choose.randrange(12)}


def put(engine: ps.Engine, choose: Random) -> None:
    """Put a batch of any size, or delete a document."""
    if choose.random() < 0.2:
        engine.delete("users", choose.randrange(KEYS))
    else:
        engine.put_many("users", [document(choose) for _ in range(choose.choice([1, 3, 40]))])


def plain(change: ps.Change) -> list[Any]:
    """Return a change as JSON can write it."""
    old, new = (None if side is ps.ABSENT else side for side in (change.old, change.new))
    return [change.view, change.group, old, new, change.position]


def main(path: Path) -> None:
    """Follow the feed, and print changes."""
    with ps.open(app(), path, readonly=True) as engine:
        for change in engine.changes(follow=True, initial=True):
            print(json.dumps(plain(change)), flush=True)
            if change.view == "end":
                return


if __name__ == "__main__":
    main(Path(sys.argv[1]))
