"""Flip bits in a data file and cut it off, at drawn places, and check the outcome."""

from __future__ import annotations

import os
import pickle
import random
import struct
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import penstock as ps
from penstock.cache.lmdb import lmdb_databases
from penstock.engine import damaged_pages_at
from tests.faults import everykind
from tests.faults.everykind import document
from tests.harness.worlds import TINY

_PAGE = 4096
_HEADER = struct.Struct("=QHHHH")
_BRANCH, _LEAF = 1, 2


def deep_app() -> ps.App:
    """Return an app whose views have databases with branch pages."""
    app = ps.App("deep")
    users = app.table("users", key="id", ts="ts")
    users.view("names", key="name", reduce=ps.count())
    users.view("most", key="name", reduce={"most": ps.max("amount"), "n": ps.count()})
    return app


def _deep_document(number: int, ts: int) -> dict[str, Any]:
    return {"id": number, "name": f"{number * 7919 % 1000:04}" + "x" * (100 + number % 250), "amount": ts, "ts": ts}


@contextmanager
def _deep(path: Path) -> Iterator[Any]:
    with ps.open(deep_app(), path, limits=TINY, listen=False) as engine:
        yield engine


def _fill_deep(path: Path) -> None:
    with _deep(path) as engine:
        for ts in range(3):
            engine.put_many("users", [_deep_document(number, ts) for number in range(ts * 10, 250 + ts * 10)])


def _read_deep(engine: Any) -> dict[str, Any]:
    """Return the results of all reads, with each group also read on its own."""
    out: dict[str, Any] = {}
    snap = engine.snapshot()
    names = sorted({_deep_document(number, 0)["name"] for number in range(300)})

    def reading(name: str, read: Any) -> None:
        try:
            out[name] = read()
        except ps.StoreDamaged as damage:
            out[name] = damage

    reading("users", lambda: [str(row) for row in sorted(snap.table("users").items())])
    reading("users by key", lambda: [str(snap.table("users").get(key)) for key in range(300)])
    for view in ("names", "most"):
        reading(view, lambda view=view: [str(row) for row in snap.view(view).items()])
        reading(f"{view} by group", lambda view=view: [str(snap.view(view).get(name)) for name in names])
    reading("feed", lambda: [str(change) for change in engine.changes(since=0)])
    return out


class World:
    """A sound store: its file, the functions that open and read it, and the results of all reads."""

    def __init__(self, folder: Path, deep: bool) -> None:
        path = folder / ("deep" if deep else "every")
        self.deep = deep
        (_fill_deep if deep else everykind.fill)(path)
        self.file = (path / "data.mdb").read_bytes()
        with self.opened(path) as engine:
            self.whole = self.read(engine)
            assert engine.check().ok
        assert not [name for name, one in self.whole.items() if isinstance(one, Exception)]

    def opened(self, path: Path) -> AbstractContextManager[Any]:
        """Open the engine at a path."""
        return _deep(path) if self.deep else everykind.opened(path)

    def read(self, engine: Any) -> dict[str, Any]:
        """Return the results of all reads, including errors that name damage."""
        return _read_deep(engine) if self.deep else everykind.read(engine)

    def node_bits(self) -> list[int]:
        """Return the bits of page headers, node headers and keys."""
        out: list[int] = []
        for start in range(2 * _PAGE, len(self.file), _PAGE):
            number, pad, flags, lower, upper = _HEADER.unpack_from(self.file, start)
            if number * _PAGE != start or flags not in (_BRANCH, _LEAF) or pad or not 16 < lower <= upper <= _PAGE:
                continue
            spans = [(0, lower)]
            for at in struct.unpack_from(f"={(lower - 16) // 2}H", self.file, start + 16):
                spans.append((at, at + 8 + struct.unpack_from("=H", self.file, start + at + 6)[0]))
            out += [8 * (start + byte) + bit for a, b in spans for byte in range(a, b) for bit in range(8)]
        return out


def worlds(folder: Path) -> list[World]:
    """Return the sound stores. Another process makes them once, so that this one never opens LMDB."""
    from tests.faults.damage import in_child

    made = folder / "worlds"

    def make() -> str:
        made.write_bytes(pickle.dumps([World(folder, deep) for deep in (False, True)]))
        return ""

    if not made.exists():
        in_child(make)
    out: list[World] = pickle.loads(made.read_bytes())
    return out


def begin(folder: Path, where: str) -> Any:
    """Return the function that runs a trial of one kind."""
    found = worlds(folder.parent)
    nodes = [world.node_bits() for world in found] if where == "nodes" else []

    def trial(rng: random.Random, place: Path) -> str:
        which = rng.randrange(2)
        world = found[which]
        if where == "cuts":
            damaged = world.file[
                : rng.choice([rng.randrange(len(world.file)), _PAGE * rng.randrange(len(world.file) // _PAGE)])
            ]
        else:
            bit = rng.choice(nodes[which]) if where == "nodes" else rng.randrange(8 * len(world.file))
            turned = bytearray(world.file)
            turned[bit // 8] ^= 1 << bit % 8
            damaged = bytes(turned)
        (place / "data.mdb").write_bytes(damaged)
        return outcome(world, place)

    return trial


def abort() -> str:
    """End this process as LMDB does."""
    os.abort()


def outcome(world: World, path: Path) -> str:
    """Check a damaged store, apply the remedies, and read everything. Raise if a read is wrong after a clean check."""
    from tests.faults.damage import Failed

    if world.deep:
        lmdb_databases._FIRST = 4  # opening walks as few pages as for a large store
    try:
        if damaged_pages_at(str(path)):
            return "named by the walk of pages"
    except ps.PenstockError as error:
        return f"refused ({type(error).__name__})"
    try:
        with world.opened(path) as engine:
            report = engine.check()
            if report.ok:
                seen = world.read(engine)
                wrong = [name for name, one in world.whole.items() if seen[name] != one]
                if wrong:
                    raise Failed(f"served after a clean check: {wrong}")
                return "clean"
            _remedies(world, engine)
            return "named by the check"
    except ps.PenstockError as error:
        return f"refused ({type(error).__name__})"


def _remedies(world: World, engine: Any) -> None:
    """Apply the remedies that damage errors name. Each may end in a typed error."""
    views = [view.name for view in engine.store.core.app.views()]
    documents = [document(number, 20) for number in range(15)]
    reading = [lambda: world.read(engine), lambda: engine.put_many("users", documents)]
    mending = [lambda: engine.check(fix=True), *(partial(engine.restate, view) for view in views), engine.check]
    about = [lambda: list(engine.quarantine(resting=True)), engine.status]
    for step in (*reading, *mending, *reading, *about):
        try:
            step()
        except ps.PenstockError:
            continue
