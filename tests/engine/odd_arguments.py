"""Calls of the public API with arguments of odd kinds and values: each ends as documented or raises a PenstockError.

    python -m tests.engine.odd_arguments --calls 20000 --seed 0

A call takes valid arguments and exchanges one or two of them for an odd value. KeyError is documented for `[]` and for
`row()` of a key that is absent. Every other error of another kind is a fault, but for errors of the odd value itself.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import penstock as ps

Odd = Callable[[], Any]


class Strange:
    """An object that fails when it is shown, compared or asked for its length."""

    def __repr__(self) -> str:
        return "<strange>"

    def __len__(self) -> int:
        raise ValueError("no length")

    def __bool__(self) -> bool:
        raise ValueError("no truth value")


def _itself() -> list[Any]:
    out: list[Any] = []
    out.append(out)
    return out


def _deep() -> Any:
    out: Any = 1
    for _ in range(3_000):
        out = [out]
    return out


def _constants(*values: Any) -> list[Odd]:
    """Each of these values, given anew at each call."""
    return [partial(_same, value) for value in values]


def _same(value: Any) -> Any:
    return value


ODD: tuple[Odd, ...] = (
    *_constants(None, True, False, 0, 1, -1, 7, 2**63, 2**80, -(2**80), 10**5_000),
    *_constants(0.0, -0.0, 1.5, 1e308, math.nan, math.inf, Decimal("NaN"), Decimal(3)),
    *_constants("", "x", "t", "v", "id", "a.b", ".", "..", "/", "\0", "\ud800", "é" * 300),
    *_constants(b"", b"t", b"{}", b"{", b"\xff\xfe", bytearray(b"x"), memoryview(b"x")),
    *_constants((), ("t",), (1, 2), range(3), Ellipsis, NotImplemented, int, len, ps),
    list,
    dict,
    set,
    object,
    Strange,
    _itself,
    _deep,
    lambda: [None],
    lambda: ["t", 7],
    lambda: [{"id": 1}],
    lambda: [{}, 7, b"{}", "{", None],
    lambda: {"id": 1},
    lambda: {"id": None},
    lambda: {"t": 1, 2: 3},
    lambda: {"t": [{}]},
    lambda: {"\ud800": "\ud800"},
    lambda: {"id": {1, 2}},
    lambda: "y" * 70_000,
    lambda: "y" * 5_000,
    lambda: iter([1, 2]),
    lambda: (1 / 0 for _ in range(1)),
    lambda: lambda *args: None,
    lambda: lambda: None,
    lambda: Path("x") / "y",
    lambda: Path("\0"),
    lambda: datetime(2020, 1, 1),
    lambda: np.arange(3),
    lambda: np.float64(1.5),
    lambda: np.int64(7),
    lambda: ValueError("x"),
    lambda: ps.Record("t", 1, {"id": 1}),
    lambda: [ps.Record("t", 1, {"id": 1}, None, 0)],
    lambda: ps.field("g"),
    lambda: ps.ABSENT,
)


def app_of() -> ps.App:
    app = ps.App("odd")
    table = app.table("t", key="id", ts="ts")
    table.view("v", key=("g", "h"), reduce={"n": ps.count(), "sum": ps.sum("n")})
    table.view("max", key="g", value="n", reduce=ps.max())
    table.view("index", key="g", value="n", reduce=None)
    table.view("function", reduce=ps.last())(lambda doc: [(doc["g"], doc["n"])])
    return app


def _doc() -> dict[str, Any]:
    return {"id": 1, "g": "a", "h": 1, "n": 2, "ts": 5}


def _docs() -> list[Any]:
    return [_doc(), {"id": 2, "g": "b", "h": 1, "n": 2, "ts": 5}, {"id": 3, "g": None, "n": "x", "ts": 1}]


@dataclass(frozen=True, slots=True)
class Call:
    """One public call: a name, how it is made, and its valid arguments. `star` are positional arguments."""

    name: str
    make: Callable[..., Any]
    valid: dict[str, Odd]
    star: tuple[Odd, ...] = ()
    missing: tuple[type[BaseException], ...] = ()  # documented beside PenstockError
    avoid: dict[str, tuple[Any, ...]] = field(default_factory=dict)  # legal values that wait or cost much


class World:
    """Engines of one kind with documents, and all calls of what they give."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.folder, self.kind = folder, kind
        app = app_of()
        how: dict[str, Any] = {"partitions": 2} if kind == "partitions" else {}
        self.writer = ps.open(app, None if kind == "partitions" else folder / "store", **how)
        self.writer.put_many("t", _docs())
        self.engine = ps.open(app, folder / "store", readonly=True) if kind == "readonly" else self.writer
        self.snap = self.engine.snapshot()
        self.calls = [
            *self._engine(),
            *self._snapshot(),
            *self._views(),
            *self._table(),
            *_definitions(),
            *self._open(),
        ]

    def close(self) -> None:
        self.snap.close()
        self.engine.close()
        self.writer.close()

    def _engine(self) -> Iterator[Call]:
        e, table, view, no = self.engine, lambda: "t", lambda: "v", lambda: None
        yield Call("put", e.put, {"table": table, "doc": _doc, "ts": no})
        yield Call("delete", e.delete, {"table": table, "key": lambda: 9, "ts": no})
        many = {"table": table, "docs": _docs, "strict": lambda: False, "batch": no}
        yield Call("put_many", e.put_many, many)
        record = lambda: [ps.Record("t", 1, _doc(), None, 0)]  # noqa: E731
        yield Call("ingest", e.ingest, {"records": record, "source": lambda: "s:0", "resume": lambda: 0})
        yield Call("compact", e.compact, {"progress": no})
        copy = lambda folder, progress: e.copy(folder, progress)  # noqa: E731
        yield Call("copy", copy, {"folder": lambda: self.folder / "store", "progress": no})
        yield Call("snapshot", lambda consistency: e.snapshot(consistency).close(), {"consistency": lambda: "eventual"})
        follow = {"since": no, "follow": lambda: False, "initial": lambda: True, "until": no, "early": lambda: False}
        for name in ("changes", "feed"):
            yield Call(name, getattr(e, name), follow, (view,), (), {"follow": (True, 1)})
        yield Call("check", e.check, {"fix": lambda: False, "progress": no})
        yield Call("migrate", e.migrate, {"progress": no})
        yield Call("preview", e.preview, {"app": app_of})
        wanted = {"ids": no, "kind": no, "table": table, "view": no, "limit": no}
        yield Call("quarantine", e.quarantine, {**wanted, "resting": lambda: False})
        yield Call("retry", e.retry, {**wanted, "progress": no})
        yield Call("drop", e.drop, {**wanted, "limit": lambda: 1, "progress": no})
        yield Call("repost", e.repost, {"table": table, "doc": _doc, "ts": no, "progress": no})
        yield Call("repost_many", e.repost_many, {"values": lambda: {"t": [_doc()]}, "progress": no})
        yield Call("restate", e.restate, {"name": view, "key_or_group": lambda: ("a", 1), "progress": no})
        yield Call("batch.put", self._batch("put"), {"table": table, "doc": _doc, "ts": no})
        yield Call("batch.delete", self._batch("delete"), {"table": table, "key": lambda: 9, "ts": no})

    def _batch(self, name: str) -> Callable[..., Any]:
        def call(**given: Any) -> None:
            with self.engine.batch() as batch:
                getattr(batch, name)(**given)

        return call

    def _snapshot(self) -> Iterator[Call]:
        s, view = self.snap, {"view": lambda: "v"}
        yield Call("snapshot.view", s.view, {"name": lambda: "v"})
        yield Call("snapshot.table", s.table, {"name": lambda: "t"})
        yield Call("snapshot.stored", s.stored, {"table": lambda: "t", "key": lambda: 1})
        for name in ("as_of", "holds", "holds_any"):
            yield Call(f"snapshot.{name}", getattr(s, name), view)

    def _views(self) -> Iterator[Call]:
        no = lambda: None  # noqa: E731
        for name, group in (("v", ("a", 1)), ("max", "a"), ("index", ("a", 1)), ("function", "a")):
            v, one = self.snap.view(name), lambda group=group: group
            range_ = {"prefix": no, "start": one, "stop": one, "through": one}
            range_ |= {"reverse": lambda: False, "limit": lambda: 5}
            yield Call(f"{name}.get", v.get, {"group": one})
            yield Call(f"{name}.get_many", v.get_many, {"groups": lambda group=group: [group]})
            yield Call(f"{name}[]", v.__getitem__, {"group": one}, missing=(KeyError,))
            yield Call(f"{name} in", v.__contains__, {"group": one})
            yield Call(f"{name}.row", v.row, {"group": one}, missing=(KeyError,))
            yield Call(f"{name}.items", v.items, range_)
            yield Call(f"{name}.rollup", v.rollup, {"level": lambda: 1, **range_})
            yield Call(f"{name}.why", v.why, {"group": one, "progress": no})
            yield Call(f"{name}.why_many", v.why_many, {"groups": lambda group=group: [group], "progress": no})

    def _table(self) -> Iterator[Call]:
        t = self.snap.table("t")
        yield Call("table.get", t.get, {"key": lambda: 1})
        yield Call("table.get_many", t.get_many, {"keys": lambda: [1]})
        yield Call("table[]", t.__getitem__, {"key": lambda: 1}, missing=(KeyError,))
        yield Call("table in", t.__contains__, {"key": lambda: 1})
        yield Call("table.row", t.row, {"key": lambda: 1}, missing=(KeyError,))

    def _open(self) -> Iterator[Call]:
        no, valid = (lambda: None), {"app": app_of, "path": lambda: None, "readonly": lambda: False}
        valid |= {"memory": lambda: 1 << 28, "durability": lambda: "sync", "limits": no, "listen": lambda: False}
        valid |= {"changes": lambda: 10, "migrate": lambda: "auto", "partitions": no, "processes": lambda: False}
        valid |= {"mode": lambda: 0o700}
        big = {"partitions": (7, 1), "path": ("/", "..", ".")}
        yield Call("open", lambda **given: ps.open(**given).close(), valid, avoid=big)


def _definitions() -> Iterator[Call]:
    no = lambda: None  # noqa: E731
    yield Call("App", ps.App, {"name": lambda: "a"})
    table = {
        "name": lambda: "t",
        "key": lambda: "id",
        "ts": no,
        "merge": lambda: "replace",
        "tombstones": no,
        "sample": no,
    }
    yield Call("app.table", lambda **given: ps.App("a").table(**given), table)
    view = {"name": lambda: "v", "key": lambda: "g", "value": no, "where": no, "reduce": ps.count}
    view |= {"sources": lambda: False, "version": no, "production": lambda: "strong"}
    yield Call("table.view", lambda **given: ps.App("a").table("t", key="id").view(**given), view)
    decorated = lambda **given: ps.App("a").table("t", key="id").view(**given)(lambda doc: [1])  # noqa: E731
    yield Call("@table.view", decorated, {name: view[name] for name in ("name", "reduce", "sources", "version")})
    yield Call("field", ps.field, {"path": lambda: "a.b"})
    for op in ("__eq__", "__ne__", "__lt__", "__ge__", "__and__", "__or__"):
        yield Call(
            f"field.{op}",
            getattr(ps.field("a"), op),
            {"value" if op[2:5] not in ("and", "or_") else "other": lambda: 1},
        )
    one = {"f": no}
    for name in ("count", "sum", "mean", "min", "max", "distinct"):
        yield Call(name, getattr(ps, name), one)
    for name in ("variance", "stddev"):
        yield Call(name, getattr(ps, name), {"f": no, "ddof": lambda: 1})
    for name in ("top", "bottom", "collect"):
        yield Call(name, getattr(ps, name), {"n": lambda: 3, "f": no})
    for name in ("first", "last"):
        yield Call(name, getattr(ps, name), {"f": no, "by": no})
    yield Call("histogram", ps.histogram, {"edges": lambda: [1, 2], "f": no})
    yield Call("quantiles", ps.quantiles, {"qs": lambda: [0.5], "f": no})
    yield Call("group", ps.group, {"g": object, "f": no})
    yield Call("monoid", ps.monoid, {"m": object, "f": no})
    record = {"table": lambda: "t", "key": lambda: 1, "doc": _doc, "ts": no, "offset": no, "repost": lambda: False}
    yield Call("Record", ps.Record, record)


def hunt(kinds: list[str], calls: int, seed: int, folder: Path) -> tuple[Counter[str], list[str]]:
    """How often each call failed with an error of another kind, and the first traceback of each."""
    choose, found, shown = Random(seed), Counter[str](), list[str]()
    worlds = [World(kind, folder / kind) for kind in kinds]
    own = folder / "cwd"
    own.mkdir()
    with contextlib.chdir(own):
        for number in range(calls):
            world = worlds[number % len(worlds)]
            call = choose.choice(world.calls)
            fault = _fault(call, choose)
            if fault is not None:
                where = f"{world.kind} {call.name}: {fault[0]}"
                found[where] += 1
                if found[where] == 1:
                    shown.append(f"{where}\n{fault[1]}")
    for world in worlds:
        with contextlib.suppress(ps.PenstockError):
            world.close()
    return found, shown


def _fault(call: Call, choose: Random) -> tuple[str, str] | None:
    """The error of another kind that a call with odd arguments raised."""
    given = {name: make() for name, make in call.valid.items()}
    star = [make() for make in call.star]
    places = [*given, *range(len(star))]
    asked = choose.sample(places, min(len(places), choose.choice([1, 1, 2])))
    for place in asked:
        value = choose.choice(ODD)()
        if isinstance(place, int):
            star[place] = value
        elif not any(type(value) in (type(bad), bool, str) and value == bad for bad in call.avoid.get(place, ())):
            given[place] = value
    try:
        positional = not star and len(given) == 1
        answer = call.make(*given.values()) if positional else call.make(*star, **given)
        if isinstance(answer, Iterator):
            list(islice(answer, 5))
    except ps.PenstockError as error:
        str(error)
        return None
    except call.missing:
        return None
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        if last.filename == __file__:
            return None  # a user's own iterable or function raised it
        odd = {place: given[place] if isinstance(place, str) else star[place] for place in asked}
        try:
            what = repr(odd)[:200]
        except Exception:
            what = "arguments that can't be shown"
        return f"{type(error).__name__} in {os.path.basename(last.filename)}:{last.lineno}", what + "\n" + "".join(
            traceback.format_exception(error)[-4:]
        )
    return None


def main() -> int:
    """Hunt, and print the faults."""
    parser = argparse.ArgumentParser("python -m tests.engine.odd_arguments", description=__doc__)
    parser.add_argument("--calls", type=int, default=20_000, help="calls in all (20,000)")
    parser.add_argument("--seed", type=int, default=0, help="where it begins (0)")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found, shown = hunt(["store", "readonly", "partitions"], asked.calls, asked.seed, Path(folder))
    print("\n\n".join(shown))
    for where, n in found.most_common():
        print(f"{n:6} {where}")
    print(f"{sum(found.values())} of {asked.calls} calls raised another error")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
