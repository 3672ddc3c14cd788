"""An app and its documents, for stores that an earlier version of the package wrote.

    python -m tests.core.stored_app FOLDER

It writes a store of one partition, one of three, and their digests.
"""

from __future__ import annotations

import json
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import penstock as ps

UNLUCKY = 13
PARTITIONS = (1, 3)
DIGESTS = "digests.json"


class Sizes:
    """A group of the app's own, which fails on one value."""

    zero = 0

    def lift(self, value: Any) -> int:
        if value == UNLUCKY:
            raise ValueError("unlucky")
        return len(str(value))

    def merge(self, a: int, b: int) -> int:
        return a + b

    def unmerge(self, a: int, b: int) -> int:
        return a - b


class Greatest:
    """A monoid of the app's own."""

    zero = 0

    def lift(self, value: int) -> int:
        return value

    def merge(self, a: int, b: int) -> int:
        return max(a, b)


class NoTags(ps.PenstockError):
    """An error of the app's own, which derives from one of the package."""


def tags(doc: dict[str, Any]) -> Iterator[Any]:
    """Yield a group for each tag."""
    if doc.get("tags") is None:
        raise NoTags("no tags")
    for tag in doc["tags"]:
        yield tag, doc["amount"]


def lengths(row: ps.Row) -> Iterator[Any]:
    """Yield the length of a name."""
    yield len(row.key), row.value


def app_of() -> ps.App:
    """Return an app with views of each kind."""
    app = ps.App("stored")
    users, plain = app.table("users", key="id", ts="ts"), app.table("plain", key="id")
    names = users.view("names", key="name", reduce=ps.count())
    trees = {"most": ps.max("amount"), "half": ps.quantiles([0.5], "amount"), "first": ps.first("name")}
    users.view("trees", key="city", reduce={**trees, "names": ps.distinct("name"), "top": ps.top(2, "amount")})
    exact = {"total": ps.sum("amount"), "mean": ps.mean("amount"), "bins": ps.histogram([1, 5], "amount")}
    users.view("sums", key="city", where=ps.field("amount") > 1, reduce={**exact, "spread": ps.variance("amount")})
    users.view("listed", key="name", value="amount", reduce=None)
    plain.view("sizes", key="city", reduce=ps.group(Sizes(), "amount"))
    users.view("tags", reduce=ps.sum())(tags)
    users.view("greatest", reduce=ps.monoid(Greatest()))(tags)
    names.view("lengths", reduce=ps.sum())(lengths)
    return app


def document(number: int, ts: int = 0) -> dict[str, Any]:
    """Return a document as a function of its number and ts."""
    name, tag = ["Sue", "Joe", "Bob", "x" * 600][(number + ts) % 4], "pqr"[(number + ts) % 3]
    amount = [1, 3, 2**70, 7][number % 4]
    return {"id": number, "name": name, "city": "abc"[number % 3], "tags": [tag], "amount": amount, "ts": ts}


def fill(engine: ps.Engine) -> None:
    """Put documents, deletions, and records that views or the tables cannot take."""
    for ts in range(3):
        engine.put_many("users", [document(number, ts) for number in range(60)])
        engine.put_many("plain", [document(number, ts) for number in range(20)])
    engine.put("plain", {"name": "no id"})
    engine.delete("users", 3, ts=9)
    engine.put("users", document(1, 6) | {"tags": None})
    engine.put("plain", document(1) | {"amount": UNLUCKY})


def _content(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Leave out files that name this machine, and the names of users."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return None if Path(entry.name).name in ("owner", "lock.mdb") else entry


def main(folder: Path) -> None:
    """Write the stores, each as an archive, and their digests."""
    digests = {}
    for partitions in PARTITIONS:
        path = folder / f"store{partitions}"
        more: dict[str, Any] = {"partitions": partitions, "processes": False} if partitions > 1 else {}
        with ps.open(app_of(), path, listen=False, **more) as engine:
            fill(engine)
            digests[str(partitions)] = engine.digest()
        with tarfile.open(f"{path}.tar.xz", "w:xz") as archive:
            archive.add(path, path.name, filter=_content)
    (folder / DIGESTS).write_text(json.dumps(digests, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
