"""The apps of the engine's own crash tests, and generators of their records. Each run takes milliseconds.

Together they cover both merges, tables with and without ts, and views by fields, by functions and on other views. They
cover groups of every type, numbers beyond 64 bits, and invertible reducers of a user. Some documents are held, forever
or for a while. Each app can change to variants with changed, added and removed views.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Any

from penstock.mapreduce import (
    all,
    argmax,
    bottom,
    collect,
    count,
    distinct,
    first,
    group,
    histogram,
    last,
    max,
    mean,
    min,
    monoid,
    only,
    quantiles,
    sum,
    top,
    variance,
)
from penstock.spout import Record
from penstock.testing.simulator.app_changes import variants_of
from penstock.testing.simulator.fault_plan import Plan, plan_of
from penstock.testing.simulator.outage import Switch
from penstock.views import App, field

_NAMES = ("Sue", "Joe", "Bob", "Jo")
_LONG = "x" * 450
_GROUPS: tuple[Any, ...] = ("Sue", "Joe", "", None, 1, 1.0, True, 7.5, _LONG + "a", _LONG + "b", [1, "a"])
_NUMBERS: tuple[Any, ...] = (1, -7, 0.1, 0.2, 1e16, -1e16, 1 << 62, (1 << 63) - 1, 1 << 70, None, Decimal("3.30"))
Write = Callable[[Random, int], dict[str, Any]]


@dataclass(slots=True)
class TrialRecords:
    """Records of one or several tables: keys that repeat, moments around the present, and some deletions."""

    tables: dict[str, Write]
    keys: tuple[Any, ...] = tuple(range(1, 41))
    ts: str | None = "ts"
    broker: bool = False
    now: int = 0
    span: int = 0  # number of keys in use, 0 until it is drawn
    wide: bool = False

    def widen(self) -> None:
        """Use all keys with equal probability from now on."""
        self.wide = True

    def record(self, choose: Random) -> Record:
        """Return the next record."""
        self.now += 1
        table = choose.choice(tuple(self.tables))
        self.span = self.span or choose.choice((4, 6, 6, len(self.keys)))
        key = choose.choice(self.keys[: len(self.keys) if self.wide else choose.choice((2, 3, self.span))])
        moment = self.now + choose.choice((0, 0, 0, 1, -1, -2, -6))
        dated = self.ts is not None or self.broker
        if choose.random() < 0.15:
            return Record(table, key, None, moment if dated and choose.random() < 0.7 else None)
        doc = {"id": key, **self.tables[table](choose, self.now)}
        if self.ts is not None:
            doc[self.ts] = moment
        if choose.random() < 0.02:
            doc["id"] = None  # it is rejected
        return Record(table, key, doc, moment if self.broker else None)


@dataclass(frozen=True, slots=True)
class Trial:
    """An app, and the function that makes a stream of records for it."""

    name: str
    app: App
    stream: Callable[[], TrialRecords]
    others: tuple[App, ...] = ()  # apps that this one may change to
    outage: Switch | None = None  # the service that map functions ask


def _counts() -> Trial:
    app, other = App("counts"), App("counts")
    for own in app, other:
        users = own.table("users", key="id", ts="ts")
        if own is app:
            names = users.view("namecount", key="name", reduce=count())
        else:
            names = users.view("namecount", key="name", where=field("name") != "Joe", reduce=count())
            users.view("newest", key=(), reduce=last("name"))

        @names.view("lengths", reduce=sum())
        def _(row: Any) -> Iterator[Any]:
            yield len(row.key), row.value

    docs: dict[str, Write] = {"users": lambda r, _: {"name": r.choice(_NAMES)}}
    return Trial("counts", app, lambda: TrialRecords(docs), (other,))


def _sums() -> Trial:
    app = App("sums")
    plain = app.table("plain", key="id")
    reducers = {"n": count(), "some": count("v"), "total": sum("v"), "avg": mean("v"), "var": variance("v", ddof=0)}
    rows = plain.view("sums", key="g", where=~(field("v") == 0.2), reduce=reducers)
    rows.view("totals", key="value.n", value="value.total", reduce=sum())

    def doc(choose: Random, _: int) -> dict[str, Any]:
        return {"g": choose.choice(_GROUPS), "v": choose.choice(_NUMBERS)}

    other = App("sums")
    plain = other.table("plain", key="id")
    rows = plain.view("sums", key=("g", "v"), value="v", reduce={"n": count(), "total": sum()})
    rows.view("kinds", key="value.n", reduce=count())
    return Trial("sums", app, lambda: TrialRecords({"plain": doc}, ts=None), (other, *variants_of(app)))


def _patches() -> Trial:
    app = App("patches")
    patched = app.table("patched", key="id", ts="ts", merge="patch")
    loose = app.table("loose", key="id", merge="patch")
    patched.view("fields", key=("g", "h"), reduce={"n": count(), "a": sum("a")})

    @loose.view("tags", reduce=count())
    def _(doc: Any) -> Iterator[Any]:
        yield from (name for name in doc if name != "id")

    def doc(choose: Random, now: int) -> dict[str, Any]:
        fields = {"a": choose.choice((1, None, 2.5)), "g": choose.choice(_NAMES), "h": choose.choice((1, None))}
        return {name: value for name, value in fields.items() if choose.random() < 0.6}

    def part(choose: Random, now: int) -> dict[str, Any]:
        return {choose.choice("abc"): choose.randrange(3)}

    del loose

    class Two(TrialRecords):
        """Records of two tables, one with a ts and one without."""

        def record(self, choose: Random) -> Record:
            """Return the next record."""
            self.ts = "ts" if choose.random() < 0.6 else None
            self.tables = {"patched": doc} if self.ts else {"loose": part}
            return TrialRecords.record(self, choose)

    return Trial("patches", app, lambda: Two({}), variants_of(app))


def _functions() -> Trial:
    app = App("functions")
    orders = app.table("orders", key="id", ts="ts")

    @orders.view("tags", reduce={"n": count(), "total": sum()})
    def tags(doc: Any) -> Iterator[Any]:
        for tag in doc["tags"]:
            yield (tag, doc["name"]), doc["v"]
            yield tag, None
        yield doc["name"][0], doc["v"]  # an empty name is held

    tags.view("sizes", key="value.n", reduce=count())

    def doc(choose: Random, _: int) -> dict[str, Any]:
        tags = [choose.choice(("red", "blue", 1, None)) for _ in range(choose.randrange(4))]
        name = choose.choice(_NAMES) if choose.random() < 0.93 else ""
        return {"name": name, "tags": tags, "v": choose.choice(_NUMBERS)}

    other = App("functions")

    @other.table("orders", key="id", ts="ts").view("tags", reduce={"n": count(), "most": max()})
    def _(doc: Any) -> Iterator[Any]:
        yield from ((tag, doc["v"]) for tag in doc["tags"])

    return Trial("functions", app, lambda: TrialRecords({"orders": doc}), (other, *variants_of(app)))


class _Bounded:
    """A user's monoid that fails if a sum is above 4. The order of merges makes no difference."""

    zero = 0

    def lift(self, value: Any) -> Any:
        return value

    def merge(self, a: Any, b: Any) -> Any:
        if a + b > 4:
            raise OverflowError("more than 4")
        return a + b


def _asking() -> Trial:
    """Return an app with a map that asks a failing service, and a failing reducer. A retry takes held documents."""
    app, switch = App("asking"), Switch()
    users = app.table("users", key="id", ts="ts")

    @users.view("kinds", reduce={"n": count(), "most": max()}, version="1")
    def kinds(doc: Any) -> Iterator[Any]:
        name = doc["name"] if doc["name"] == "Sue" else switch.ask(doc["name"])
        yield name, doc["v"]

    kinds.view("sizes", key="value.n", reduce=count())
    users.view("bounded", key="name", value="v", reduce={"n": count(), "sum": monoid(_Bounded())})
    users.view("names", key="name", reduce=count())

    def doc(choose: Random, _: int) -> dict[str, Any]:
        return {"name": choose.choice(_NAMES), "v": choose.choice((1, 2, 0.5))}

    return Trial("asking", app, lambda: TrialRecords({"users": doc}), variants_of(app), switch)


class _Cubes:
    """A user's invertible reducer of text lengths: the count, the sum and the sum of cubes, exact at any size."""

    zero = (0, 0, 0)

    def lift(self, value: Any) -> tuple[int, int, int]:
        size = len(str(value))
        return 1, size, size**3

    def merge(self, a: Any, b: Any) -> list[int]:
        return [x + y for x, y in zip(a, b, strict=True)]

    def unmerge(self, a: Any, b: Any) -> list[int]:
        return [x - y for x, y in zip(a, b, strict=True)]

    def result(self, total: Any) -> dict[str, Any]:
        return {"n": total[0], "sizes": list(total[1:])}


def _groups() -> Trial:
    app = App("groups")
    users, heard = app.table("users", key=("id", "org"), ts="ts"), app.table("heard", key="id", ts="@kafka")
    users.view("cubes", key=(), value="name", reduce=group(_Cubes()))
    users.view("bins", key="name", value="v", reduce=histogram([-1, 0, 0.5, 10]))
    heard.view("hearsay", key="name", reduce={"n": count(), "total": sum("v")})

    def doc(choose: Random, _: int) -> dict[str, Any]:
        return {"name": choose.choice(_NAMES), "v": choose.choice((1, -2, 0.25, 40, None, "much"))}

    class Two(TrialRecords):
        """Records of two tables: one has its ts in the document, the other beside it."""

        def record(self, choose: Random) -> Record:
            """Return the next record."""
            self.broker = choose.random() < 0.4
            self.ts = None if self.broker else "ts"
            self.tables = {"heard" if self.broker else "users": doc}
            found = TrialRecords.record(self, choose)
            if self.broker:
                return found
            org = choose.choice("xy")
            whole = None if found.doc is None else {**_map(found.doc), "org": org}
            return Record(found.table, (found.key, org), whole, found.ts)

    return Trial("groups", app, lambda: Two({}, keys=("a", 2, True, _LONG)), variants_of(app))


class _Longest:
    """A user's monoid: the longest text; of equally long texts, the greatest."""

    zero = ""

    def lift(self, value: Any) -> str:
        return str(value)

    def merge(self, a: str, b: str) -> str:
        return builtins.max(a, b, key=lambda text: (len(text), text))


def _total(values: list[Any], rereduce: bool) -> int:
    """Return the number of letters. A reduce function in the style of CouchDB."""
    return builtins.sum(values if rereduce else map(len, values))


def _trees() -> Trial:
    app = App("trees")
    users = app.table("users", key="id", ts="ts")
    ends = {"least": min("v"), "most": max("v"), "top": top(2, "v"), "first": first("v"), "last": last("name", by="v")}
    rows = users.view("ends", key="name", reduce=ends)
    rows.view("highest", key=(), value="value.most", reduce=max())
    other = App("trees")
    users = other.table("users", key="id", ts="ts")
    rows = users.view("ends", key="name", reduce={"kinds": distinct("v"), "most": max("v"), "n": count()})
    rows.view("highest", key=(), value="value.most", reduce=max())
    users.view("deep", key=("v", "name"), value="n", reduce=sum(), sources=True)
    return Trial("trees", app, lambda: TrialRecords({"users": _valued}), (other, *variants_of(app)))


def _monoids() -> Trial:
    app, other = App("monoids"), App("monoids")
    users = app.table("users", key="id", ts="ts")
    users.view("one", key=(), value="name", reduce={"longest": monoid(_Longest()), "letters": _total})
    users = other.table("users", key="id", ts="ts")
    users.view("one", key="name", value="name", reduce={"longest": monoid(_Longest())})
    return Trial("monoids", app, lambda: TrialRecords({"users": _valued}), (other,))


def _spreads() -> Trial:
    app = App("spreads")
    plain = app.table("plain", key="id")
    read = {"kinds": distinct("v"), "middle": quantiles([0.5], "n"), "some": collect(2, "v"), "low": bottom(2, "v")}
    plain.view("spread", key="name", reduce=read)
    picked = {"total": sum("n", where="ok"), "once": sum("n", distinct=True), "some": collect(2, "ok", nulls=True)}
    picked |= {"true": all("ok"), "far": argmax("n", by="v"), "two": top(2, "n", by=["-v", "n"])}
    plain.view("picked", key="name", reduce=picked)
    plain.view("one", key="name", reduce=only("ok", where=field("n") == 2))

    def doc(choose: Random, now: int) -> dict[str, Any]:
        return {**_valued(choose, now), "ok": choose.choice((True, True, False, None))}

    return Trial("spreads", app, lambda: TrialRecords({"plain": doc}, ts=None), variants_of(app))


def _kept() -> Trial:
    app = App("kept")
    plain = app.table("plain", key="id")
    plain.view("kept", key=(), value="n", reduce=sum(), sources=True)
    plain.view("listed", key="name", value="v", reduce=None)

    @plain.view("words", reduce={"n": count(), "kinds": distinct()})
    def _(doc: Any) -> Iterator[Any]:
        yield from ((letter, doc["v"]) for letter in doc["name"])

    return Trial("kept", app, lambda: TrialRecords({"plain": _valued}, ts=None), variants_of(app))


def _valued(choose: Random, now: int) -> dict[str, Any]:
    number = choose.choice((now, 1, 2, 0.5, Decimal("0.5"), None))
    return {"name": choose.choice(_NAMES), "v": choose.choice((*_GROUPS, now)), "n": number}


def _map(doc: Any) -> dict[str, Any]:
    assert isinstance(doc, dict), "made above"
    return doc


def tokens() -> Trial:
    """Return an app whose records have unique tokens. Its chained views list them; `table_readers` follows."""
    app = App("tokens")
    docs = app.table("docs", key="id", ts="ts")
    names = docs.view("names", key="name", reduce=collect(100, "token"))

    @names.view("thirds", reduce=collect(100))
    def thirds(row: Any) -> Iterator[Any]:
        yield from ((token % 3, token) for token in row.value)

    @thirds.view("fifths", reduce=collect(100))
    def _(row: Any) -> Iterator[Any]:
        yield from ((token % 5, token) for token in row.value)

    def doc(choose: Random, now: int) -> dict[str, Any]:
        return {"name": choose.choice(_NAMES), "token": now}

    return Trial("tokens", app, lambda: TrialRecords({"docs": doc}))


def trials() -> tuple[Trial, ...]:
    """Return all trials. A seed takes the one at its remainder."""
    light = _counts(), _sums(), _patches(), _functions(), _groups(), _asking()
    return *light, _trees(), _monoids(), _spreads(), _kept()


def trial_of(seed: int, every: Sequence[Trial]) -> tuple[Trial, Plan]:
    """Return the app and the run of a seed."""
    trial = every[seed % len(every)]
    return trial, plan_of(seed, trial.stream(), trial.others, trial.outage)
