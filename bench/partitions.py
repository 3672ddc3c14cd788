"""A store of two partitions: the delay of a change across them, and the gain of two cores.

The latency of one put is measured from its call to several events. These are its return, and the change becoming
visible in three views. The other partition owns the group of the first view. The second view is on the first, and its
group belongs to this partition. The third is on the second, with a group in the other partition. The first view is
strong, weak and auto, in turns of ten puts. Before each put come the smallest synced transaction of LMDB, and a round
trip of as many bytes between two processes over the same kind of connection.

The rate is that of lines put into two partitions, until all views show them. It is compared with two engines of one
partition each, in processes of their own. These run at the same time over half of the input each.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter, sleep
from typing import Any, Self

import penstock as ps
from bench import child, plot
from bench.limits import SmallestCommit
from bench.load import fresh
from bench.plan import Plan
from bench.report import Figure, median, percentile
from bench.workload import TABLE, Workload, app
from penstock.cache import encode_key
from penstock.engine import PartitionedStore
from penstock.remote.socket_wire import Wire, connect, listen
from penstock.views import DeliveryMode

HOPS = ("document", "view", "view of it", "view of that")
_COMMITS, _MORE, _SHARE = 3, 0.001, 0.75
_SHARES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)  # shares of the puts in the plot
_RUN = 10  # puts of one kind, one after the other, before those of the next
_PATIENCE = 30.0
_TURN = 5e-5  # seconds between two looks
_PARTS = 2


def partitions(plan: Plan) -> Iterator[Figure]:
    """Measure the latency of hops, two cores, and both kinds of snapshots."""
    yield from _latency(plan)
    yield from _cores(plan)
    yield from _snapshots(plan)


def _opened(shop: ps.App, store: Path) -> ps.Engine:
    return ps.open(shop, store, partitions=_PARTS)


# -- latency


def _latency(plan: Plan) -> Iterator[Figure]:
    got = child.run("bench.partitions:hops", folder=plan.at("partitions"), puts=max(20, plan.puts // 4))
    commit, trip, idle = median(got["commits"]), median(got["trips"]), got["idle"]
    limits: dict[str, float | None] = {
        "smallest LMDB commit, µs": 1e6 * commit,
        "the wire alone, there and back, µs": 1e6 * trip,
    }
    for kind, shown in got["shown"].items():
        for n, (name, own) in enumerate(zip(HOPS, shown, strict=True)):
            tails = {f"p{share}, µs": 1e6 * percentile(own, share / 100) for share in (95, 99)}
            yield Figure(
                "partitions", f"{kind}, {n} hops: {name}", 1e6 * median(own), "µs", limits, idle, detail={**tails}
            )
    strong = got["shown"]["strong"]
    hop = (median(strong[-1]) - median(strong[0])) / (len(HOPS) - 1)
    bound = _COMMITS * commit + _MORE
    reach = f"≤ {_COMMITS} × smallest commit + {1e3 * _MORE:g} ms"
    yield Figure("partitions", "a hop", 1e6 * hop, "µs", limits, idle, reach, hop / bound, plan.met(hop <= bound))
    # Early sets are sent before the document's commit, so the time of a hop is the excess over a put without one.
    hop, bound = median(got["shown"]["weak"][1]) - (median(strong[0]) - commit), trip + _MORE
    reach = f"≤ the wire alone + {1e3 * _MORE:g} ms"
    yield Figure("partitions", "weak, a hop", 1e6 * hop, "µs", limits, idle, reach, hop / bound, plan.met(hop <= bound))
    _draw(plan, got["shown"], got["commits"])


def _draw(plan: Plan, shown: dict[str, list[list[float]]], commits: Sequence[float]) -> None:
    """Draw two plots by kind: the median by hops, and the time of the first hop by shares of the puts."""
    if plan.plots is None:
        return
    plan.plots.mkdir(parents=True, exist_ok=True)
    places = [10**n for n in range(len(HOPS))]
    lines: dict[str, Sequence[float]] = {kind: [median(own) for own in hops] for kind, hops in shown.items()}
    lines["LMDB commits"] = [median(commits) * (n + 1) for n in range(len(HOPS))]
    title = "a put until it shows, by hops between partitions: median"
    plot.svg(plan.plots / "partitions-hops.svg", title, places, lines, [f"{n}" for n in range(len(HOPS))])
    places = [10**n for n in range(len(_SHARES))]
    lines = {kind: [percentile(hops[1], share) for share in _SHARES] for kind, hops in shown.items()}
    lines["an LMDB commit"] = [percentile(commits, share) for share in _SHARES]
    title = "a put until it shows at another partition, by kind: so many of a hundred are quicker"
    plot.svg(plan.plots / "partitions.svg", title, places, lines, [f"{100 * share:g}" for share in _SHARES])


def hops(folder: str, puts: int) -> dict[str, Any]:
    """Return the seconds until each put shows in its views, by delivery mode.

    Each is returned with the seconds of a smallest commit before it and of a round trip of its bytes.
    """
    root = fresh(folder)
    commits: list[float] = []
    trips: list[float] = []
    shown: dict[str, list[list[float]]] = {kind.value: [[] for _ in HOPS] for kind in DeliveryMode}
    with ExitStack() as stack:
        smallest, echo = stack.enter_context(SmallestCommit(root)), stack.enter_context(_Other(root, "answer"))
        engines = {kind: stack.enter_context(_opened(_hopping(kind), root / kind.value)) for kind in DeliveryMode}
        looking = stack.enter_context(_Other(root, "look"))
        putting = {kind: _Putting(engine, kind.value, looking) for kind, engine in engines.items()}
        for _ in range(-(-puts // _RUN)):
            for (kind, own), _ in itertools.product(putting.items(), range(_RUN)):
                commits.append(smallest.once())
                trips.append(echo.once(b"x" * 200))
                for times, seconds in zip(shown[kind.value], own.once(), strict=True):
                    times.append(seconds)
    return {"shown": shown, "commits": commits, "trips": trips}


class _Putting:
    """A source of single puts, whose views another process reads meanwhile."""

    def __init__(self, engine: ps.Engine, kind: str, looking: _Other) -> None:
        self._engine = engine
        self._kind = kind
        self._looking = looking
        assert isinstance(engine.store, PartitionedStore), "it has two"
        self._ranges = engine.store.ranges
        self._key = self._owned(0, (f"k{i}" for i in itertools.count()))
        self._group = self._owned(1, (f"g{i}" for i in itertools.count()))
        self._numbers = (i for i in itertools.count() if self._ranges.of(encode_key(i)) == 0)

    def once(self) -> list[float]:
        """Return the seconds until a put has returned, and until each of its views shows it."""
        number = next(self._numbers)
        self._looking.say({"kind": self._kind, "due": _due(self._group, number)})
        began = perf_counter()
        self._engine.put(TABLE, {"id": self._key, "group": self._group, "number": number})
        returned = perf_counter()
        return [own - began for own in (returned, *self._looking.hear())]

    def _owned(self, partition: int, keys: Iterator[str]) -> str:
        return next(key for key in keys if self._ranges.of(encode_key(key)) == partition)


def _hopping(production: DeliveryMode) -> ps.App:
    """Return an app with a view on a table, a view on that one by its value, and one on that by its value again."""
    shop = ps.App("hops")
    users = shop.table(TABLE, key="id")
    first = users.view("first", key="group", reduce=ps.max("number"), production=production)
    second = first.view("second", key="value", reduce=ps.max("key"))
    second.view("third", key="value", reduce=ps.max("key"))
    return shop


def _due(group: str, number: int) -> list[tuple[str, Any, Any]]:
    """Return the expected row of each view: its group, and the value."""
    return [("first", group, number), ("second", number, group), ("third", group, number)]


def _until(engine: ps.Engine, view: str, group: Any, value: Any) -> None:
    end = perf_counter() + _PATIENCE
    while perf_counter() < end:
        with engine.snapshot() as snap:
            if snap.view(view).get(group) == value:
                return
        sleep(_TURN)
    raise AssertionError(f"{view} never showed {value!r}")


class _Other:
    """Another process, which answers messages. Both share one clock."""

    def __init__(self, root: Path, function: str) -> None:
        self._folder = root / function
        self._folder.mkdir()
        self._child = child.start(f"bench.partitions:{function}", folder=str(self._folder))
        assert self._child.note() == "listening"
        self._wire = connect(str(self._folder), _PATIENCE)

    def say(self, what: Any) -> None:
        """Send it a message."""
        self._wire.send(what)

    def hear(self) -> Any:
        """Return its answer."""
        return self._wire.receive(_PATIENCE)

    def once(self, data: bytes) -> float:
        """Return the seconds of a round trip."""
        began = perf_counter()
        self.say({"data": data})
        self.hear()
        return perf_counter() - began

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._wire.send(None)
        self._wire.close()
        self._child.result()


def look(folder: str) -> None:
    """Report the time at which each view showed its expected row, for stores beside this folder."""
    root = Path(folder).parent
    with ExitStack() as stack:
        engines: dict[str, ps.Engine] = {}

        def looked(message: Any) -> list[float]:
            kind, shown = message["kind"], list[float]()
            if kind not in engines:
                app = _hopping(DeliveryMode(kind))
                engines[kind] = stack.enter_context(ps.open(app, root / kind, readonly=True))
            for view, group, value in message["due"]:
                _until(engines[kind], view, group, value)
                shown.append(perf_counter())
            return shown

        _serve(folder, looked)


def answer(folder: str) -> None:
    """Send back each message until None arrives."""
    _serve(folder, lambda message: message)


def _serve(folder: str, answered: Callable[[Any], Any]) -> None:
    sock = listen(folder)
    print("listening", flush=True)
    wire = Wire(sock.accept()[0])
    while (message := wire.receive(None)) is not None:
        wire.send(answered(message))
    wire.close()
    sock.close()


# -- two cores


def _cores(plan: Plan) -> Iterator[Figure]:
    docs, keys = max(plan.docs // 2, 1_000), plan.keys // _PARTS
    rates: dict[str, list[float]] = {"two partitions": [], "two engines": []}
    idle: list[float] = []
    for n in range(plan.rounds):
        own: dict[str, Any] = child.run(
            "bench.partitions:parted", folder=plan.at(f"parted{n}"), keys=keys * _PARTS, docs=docs
        )
        rates["two partitions"].append(docs / own["seconds"])
        idle.append(own["idle"] or 0.0)
        rates["two engines"].append(_two_engines(plan, n, keys, docs // _PARTS))
    mine, two = median(rates["two partitions"]), median(rates["two engines"])
    yield Figure(
        "partitions",
        "lines into 2 partitions",
        mine,
        "documents/s",
        {"two independent engines, together": two},
        min(idle) or None,
        f"≥ {_SHARE:g} × two engines",
        mine / two,
        plan.met(mine >= _SHARE * two),
    )


def _two_engines(plan: Plan, turn: int, keys: int, docs: int) -> float:
    """Return the documents per second of two engines that start at one time, added up."""
    both = [
        child.start("bench.partitions:single", folder=plan.at(f"single{turn}-{n}"), keys=keys, docs=docs, seed=n)
        for n in range(_PARTS)
    ]
    for own in both:
        assert own.note() == "ready"
    for own in both:
        own.stop()
    taken: list[float] = [own.result()["seconds"] for own in both]
    return sum(docs / seconds for seconds in taken)


def parted(folder: str, keys: int, docs: int) -> dict[str, Any]:
    """Return the seconds of lines into two partitions, until every view shows them."""
    work = Workload(keys)
    lines = work.upserts(docs)
    with _opened(app(), fresh(folder) / "store") as engine:
        return {"seconds": _timed(engine, work, lines, engine.settle)}


def single(folder: str, keys: int, docs: int, seed: int) -> dict[str, Any]:
    """Return the seconds of lines into one partition, measured when its input ends."""
    work = Workload(keys, seed=seed)
    lines = work.upserts(docs)
    with ps.open(app(), fresh(folder) / "store") as engine:
        print("ready", flush=True)
        sys.stdin.read()
        return {"seconds": _timed(engine, work, lines, lambda: None)}


def _timed(engine: ps.Engine, work: Workload, lines: list[bytes], settle: Callable[[], None]) -> float:
    began = perf_counter()
    engine.put_many(TABLE, lines)
    settle()
    seconds = perf_counter() - began
    work.check(engine)
    return seconds


# -- snapshots


def _snapshots(plan: Plan) -> Iterator[Figure]:
    got = child.run("bench.partitions:snapshots", folder=plan.at("snapshots"), puts=max(20, plan.puts // 10))
    for kind in ("eventual", "position"):
        own = got[kind]
        yield Figure(
            "partitions",
            f"snapshot, {kind}",
            1e6 * median(own),
            "µs",
            {},
            got["idle"],
            detail={"p99, µs": 1e6 * percentile(own, 0.99)},
        )


def snapshots(folder: str, puts: int) -> dict[str, Any]:
    """Return the seconds of a snapshot of each kind, right after a put with contributions to the other partition."""
    out: dict[str, list[float]] = {"eventual": [], "position": []}
    work = Workload(1_000)
    with _opened(app(), fresh(folder) / "store") as engine:
        for line in work.upserts(puts):
            for kind in ("eventual", "position"):
                engine.put_many(TABLE, [line])
                began = perf_counter()
                with engine.snapshot(kind):
                    out[kind].append(perf_counter() - began)
    return dict(out)
