"""Calls of the public API with arguments of odd kinds and values: each ends as documented or raises a PenstockError.

    python -m tests.engine.odd_arguments --calls 20000 --seed 0

A call takes valid arguments and exchanges one or two of them for an odd value. KeyError is documented for `[]` and for
`row()` of a key that is absent. Every other error of another kind is a fault, but for errors of the odd value itself.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import penstock as ps
from penstock.engine import copy_any, is_store, partitions_of, repartition, restore_any, shrink
from penstock.sink import open_file as file_sink
from penstock.spout import SPOUTS, Uri, file_size, format_of, open_file
from tests.harness import odd_values
from tests.harness.odd_values import ODD, TEXTS, Odd, constants, same


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
    """One public call: a name, its function, and its valid arguments. `star` has the positional arguments."""

    name: str
    make: Callable[..., Any]
    valid: dict[str, Odd]
    star: tuple[Odd, ...] = ()
    missing: tuple[type[BaseException], ...] = ()  # documented beside PenstockError
    avoid: dict[str, tuple[Any, ...]] = field(default_factory=dict)  # legal values that wait or cost much
    odd: tuple[Odd, ...] = ()  # odd values for this call alone
    only: tuple[str, ...] = ()  # the arguments to exchange, if not all


HOW: dict[str, dict[str, Any]] = {
    "store": {},
    "readonly": {},
    "group": {"durability": "group"},
    "partitions": {"partitions": 2},
    "here": {"partitions": 2, "processes": False},
    "processes": {"partitions": 2, "processes": True},
    "closed": {},
    "closed partitions": {"partitions": 2, "processes": False},
    "closed snapshot": {},
}
"""By the kind of a world how its store is opened; that of "partitions" is in memory."""


class World:
    """Engines of one kind with documents, and all calls of their objects."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.folder, self.kind = folder, kind
        app = app_of()
        self.writer = ps.open(app, None if kind == "partitions" else folder / "store", **HOW[kind])
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
            *self._functions(),
            *_sources(folder),
        ]
        if kind.startswith("closed"):
            self.snap.close()
        if kind in ("closed", "closed partitions"):
            self.engine.close()

    def close(self) -> None:
        self.snap.close()
        self.engine.close()
        self.writer.close()

    def _engine(self) -> Iterator[Call]:
        e, table, view, no = self.engine, lambda: "t", lambda: "v", lambda: None
        yield Call("put", e.put, {"table": table, "doc": _doc, "ts": no})
        yield Call("delete", e.delete, {"table": table, "key": lambda: 9, "ts": no})
        if self.kind == "group":
            ticket: Any = e.put("t", _doc())
            yield Call("ticket.result", ticket.result, {"timeout": no}, missing=(TimeoutError,))
            waited = lambda **given: e.put("t", _doc()).result(**given)  # noqa: E731
            yield Call("put().result", waited, {"timeout": no}, missing=(TimeoutError,))
            yield Call("flush", lambda given: e.flush(), {"nothing": no})
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
        big = {"partitions": (7, 1), "path": ("/", "..", "."), "processes": (True, 1)}
        yield Call("open", lambda **given: ps.open(**given).close(), valid, avoid=big)

    def _functions(self) -> Iterator[Call]:
        store, fresh, to = (lambda: str(self.folder / "store")), (lambda: str(self.folder)), lambda: 2
        away = {"path": ("/", "..", "."), "target": ("/", "..", ".")}
        yield Call("copy_any", copy_any, {"path": store, "target": fresh, "tell": lambda: None}, avoid=away)
        yield Call("restore_any", restore_any, {"copy": fresh, "path": fresh, "force": lambda: False}, avoid=away)
        yield Call("repartition", repartition, {"path": fresh, "to": to, "tell": lambda: None}, avoid=away)
        for name, function in (("shrink", shrink), ("is_store", is_store), ("partitions_of", partitions_of)):
            yield Call(name, function, {"path": fresh}, avoid=away)


def _sources(folder: Path) -> Iterator[Call]:
    """Yield calls of sources and sinks by the URIs of `run`, and of the functions that open files. A URI is a text."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = folder / "docs.jsonl"
    lines.write_text('{"id": 1}\n')
    no, path, table = (lambda: None), (lambda: str(lines)), lambda: "t"
    for name, function in (("file_size", file_size), ("Uri.parse", Uri.parse)):
        yield Call(name, function, {"path" if name == "file_size" else "text": path}, odd=TEXTS)
    opened = lambda **given: open_file(**given).close()  # noqa: E731
    valid = {"path": path, "table": table, "format": no, "delimiter": no, "follow": lambda: False}
    yield Call("open_file", opened, valid, odd=TEXTS, avoid={"path": ("-",)})
    yield Call("format_of", format_of, {"path": path, "format": no}, odd=TEXTS)
    source = lambda uri, name: SPOUTS.open(uri, name).close()  # noqa: E731
    for uri in (str(lines), f"file:{lines}?follow=1", f"file:{lines}?format=csv&delimiter=;"):
        yield Call("SPOUTS.open", source, {"uri": partial(same, uri), "name": table}, odd=_uris(uri))
    kafka = "kafka://127.0.0.1:1/users?keys=json"
    yield Call("Uri.parse", lambda text: Uri.parse(text), {"text": partial(same, kafka)}, odd=_uris(kafka))
    sink = lambda path, view, envelope, dumps: file_sink(path, view, envelope, dumps).close()  # noqa: E731
    valid = {"path": lambda: str(folder / "out"), "view": lambda: "v", "envelope": lambda: "value"}
    yield Call("file sink", sink, valid | {"dumps": lambda: str}, odd=TEXTS, only=("path", "view"), missing=(OSError,))


def _uris(uri: str) -> tuple[Odd, ...]:
    """Return URIs near this one: cut off, with an odd option, with an odd character."""
    pieces = ("\0", "?", "&", "=", "%", "%zz", "#", ":", "//", "\ud800", "é" * 300, "?null=", "?format=", "&follow=7")
    near = [uri[:i] for i in range(0, len(uri), 7)] + [uri + piece for piece in pieces]
    near += [uri[: len(uri) // 2] + piece + uri[len(uri) // 2 :] for piece in pieces]
    return (*constants(*near), *TEXTS)


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
    """Count undocumented errors by call. Return the counts and the first traceback of each."""
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
    """Make a call with odd arguments. Return its undocumented error, or None."""
    given = {name: make() for name, make in call.valid.items()}
    star = [make() for make in call.star]
    places = list(call.only) or [*given, *range(len(star))]
    asked = choose.sample(places, min(len(places), choose.choice([1, 1, 2])))
    for place in asked:
        value = choose.choice(call.odd or ODD)()
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
        if last.filename in (__file__, odd_values.__file__):
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
    """Run the hunt, and print the faults."""
    parser = argparse.ArgumentParser("python -m tests.engine.odd_arguments", description=__doc__)
    parser.add_argument("--calls", type=int, default=20_000, help="calls in all (20,000)")
    parser.add_argument("--seed", type=int, default=0, help="where it begins (0)")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found, shown = hunt(list(HOW), asked.calls, asked.seed, Path(folder))
    print("\n\n".join(shown))
    for where, n in found.most_common():
        print(f"{n:6} {where}")
    print(f"{sum(found.values())} of {asked.calls} calls raised another error")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
