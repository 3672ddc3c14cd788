"""The app of the tests that kill and stop partitions: its records, its expected views, and the steps of its processes.

A batch depends only on its number. Each process of a partition imports this module, because it defines a function of a
view. If the environment names a file, one of these processes takes it. That process gets a signal after the number of
steps in the file. A step is a call of a transaction or a message on the wire.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import penstock as ps
from penstock.cache.lmdb.lmdb_transaction import LmdbWriter
from penstock.remote.socket_wire import Wire

SOURCE = "numbers"
STOP = "PENSTOCK_TEST_STOP"
"""The variable with the file: the number of a signal, and at which step it comes."""
_NAMES = ("Sue", "Joe", "Bob", "Ann", "Eve", "Max")
_CITIES = ("Bern", "Rome", "Oslo", "Wien", "Nice", "Bonn", "York", "Gent")
_KEYS = 50
MARKS = 8
"""Documents of an atomic batch."""
_STEPS = ("_begin", "put_many", "delete_many", "_commit_now")

app = ps.App("fleet")
users = app.table("users", key="id")
orders = app.table("orders", key="id", ts="ts")
marks = app.table("marks", key="id")
cities = users.view("cities", key="city", reduce={"n": ps.count(), "total": ps.sum("n")})
best = users.view("best", key="name", reduce=ps.max("n"))
spent = orders.view("spent", key="user", reduce=ps.sum("amount"))
lived = users.view("lived", key="city", reduce={"n": ps.count(), "most": ps.max("n")}, production="weak")
listed = orders.view("listed", key="user", value="amount", reduce=None, production="auto")
sizes = cities.view("sizes", key="value.n", reduce=ps.count())
tops = best.view("tops", key="value", reduce=ps.count())
marked = marks.view("marked", key="n", reduce=ps.count())
peaks = lived.view("peaks", key="value.most", reduce=ps.count())
bought = app.join("bought", order=orders, user=users, on={"order.user": "user.name"})
by_city = bought.view("by_city", key="user.city", value="order.amount", reduce={"n": ps.count(), "sum": ps.sum()})
on = {"order.user": "user.name", "user.city": "city.key"}
trips = app.join("trips", order=orders, user=users, city=cities, on=on)
crowded = trips.view("crowded", key="city.value.n", reduce=ps.count())
idle = app.join("idle", user=users, order=orders, on={"user.name": "order.user"}, how="anti")
idle_cities = idle.view("idle_cities", key="user.city", reduce=ps.count())


def spelled(user: dict[str, Any]) -> Iterator[str]:
    """Return the letters of a name. It is a module-level function, so other processes import this module for it."""
    yield from user["name"]


letters = users.view("letters", reduce=ps.count())(spelled)
told = users.view("told", reduce=ps.count(), production="weak")(spelled)


def batch(number: int) -> list[ps.Record]:
    """Return the records of a batch: documents, deletions and late records."""
    choose = Random(number)
    out: list[ps.Record] = []
    for _ in range(8):
        key = choose.randrange(_KEYS)
        draw = choose.random()
        if draw < 0.1:
            out.append(ps.Record("users", key, None, offset=number))
        elif draw < 0.6:
            doc = {"id": key, "name": choose.choice(_NAMES), "city": choose.choice(_CITIES), "n": number % 997}
            out.append(ps.Record("users", key, doc, offset=number))
        else:
            ts = number + choose.randrange(-20, 20)
            order = {"id": key, "user": choose.choice(_NAMES), "amount": choose.randrange(100), "ts": ts}
            out.append(ps.Record("orders", key, order, offset=number))
    return out


def mark(engine: ps.Engine, number: int) -> None:
    """Put an atomic batch that writes the same value to documents of all partitions."""
    with engine.batch() as transaction:
        for key in range(MARKS):
            transaction.put("marks", {"id": key, "n": number})


class Recompute:
    """The winning documents of batches and their views, in plain Python."""

    def __init__(self) -> None:
        self.mark: int | None = None
        self._users: dict[int, dict[str, Any]] = {}
        self._orders: dict[int, dict[str, Any]] = {}

    def take(self, records: Iterable[ps.Record]) -> None:
        """Take the next batch, in order."""
        for record in records:
            key = int(record.key)
            if record.table == "orders":
                assert record.doc is not None
                if key not in self._orders or record.doc["ts"] >= self._orders[key]["ts"]:
                    self._orders[key] = record.doc
            elif record.doc is None:
                self._users.pop(key, None)
            else:
                self._users[key] = record.doc

    def views(self) -> dict[str, dict[Any, Any]]:
        """Return all views."""
        cities: dict[str, dict[str, int]] = defaultdict(lambda: {"n": 0, "total": 0})
        best: dict[str, int] = {}
        spent: Counter[str] = Counter()
        lived: dict[str, dict[str, int]] = defaultdict(lambda: {"n": 0, "most": -1})
        for user in self._users.values():
            lived[user["city"]]["n"] += 1
            lived[user["city"]]["most"] = max(user["n"], lived[user["city"]]["most"])
            cities[user["city"]]["n"] += 1
            cities[user["city"]]["total"] += user["n"]
            best[user["name"]] = max(user["n"], best.get(user["name"], 0))
        for order in self._orders.values():
            spent[order["user"]] += order["amount"]
        by_city: dict[str, dict[str, int]] = defaultdict(lambda: {"n": 0, "sum": 0})
        crowded: Counter[int] = Counter()
        for order in self._orders.values():
            for user in self._users.values():
                if user["name"] == order["user"]:
                    by_city[user["city"]]["n"] += 1
                    by_city[user["city"]]["sum"] += order["amount"]
                    crowded[cities[user["city"]]["n"]] += 1
        buyers = {order["user"] for order in self._orders.values()}
        letters = dict(Counter("".join(user["name"] for user in self._users.values())))
        return {
            "cities": dict(cities),
            "best": best,
            "spent": dict(spent),
            "letters": letters,
            "told": letters,
            "lived": dict(lived),
            "peaks": dict(Counter(city["most"] for city in lived.values())),
            "listed": {(order["user"], key, 0): order["amount"] for key, order in self._orders.items()},
            "sizes": dict(Counter(city["n"] for city in cities.values())),
            "tops": dict(Counter(best.values())),
            "by_city": dict(by_city),
            "crowded": dict(crowded),
            "idle_cities": dict(Counter(user["city"] for user in self._users.values() if user["name"] not in buyers)),
            "marked": {} if self.mark is None else {self.mark: MARKS},
        }


class _Stops:
    """Counts the steps of this process from the moment it takes the file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._left = 0
        self._signal = 0

    def step(self) -> None:
        """Count one step; send the signal at the last one."""
        if not self._left:
            mine = self._file.with_suffix(f".{os.getpid()}")
            try:
                os.rename(self._file, mine)
            except FileNotFoundError:
                return
            self._signal, self._left = map(int, mine.read_text().split())
        self._left -= 1
        if not self._left:
            os.kill(os.getpid(), self._signal)

    def around(self, owner: type, name: str) -> None:
        """Count a step before each call of a function, and one after it."""
        original: Callable[..., Any] = getattr(owner, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            self.step()
            result = original(*args, **kwargs)
            self.step()
            return result

        setattr(owner, name, counted)


def _plant() -> None:
    file = os.environ.get(STOP)
    if file is None or not any("penstock.engine.partition_main" in argument for argument in sys.orig_argv):
        return
    stops = _Stops(Path(file))
    for name in _STEPS:
        stops.around(LmdbWriter, name)
    stops.around(Wire, "send")


def order_stop(file: Path, which: signal.Signals, step: int) -> None:
    """Order that the process that takes this file gets a signal at that step."""
    fresh = file.with_suffix(".new")
    fresh.write_text(f"{int(which)} {step}")
    os.replace(fresh, file)


_plant()
