"""Figures of reduce trees: max by city, retractions of the top, one update by size of its group, values in order.

If PostgreSQL is installed, its time for the same work is measured in the same run. There an index on (city, amount)
answers the queries. Queries that no index answers are computed when asked. PostgreSQL gets rows instead of JSON, so its
times contain no decoding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

from bench import child, plot, postgres
from bench.plan import Plan
from bench.report import Figure, median
from bench.workload import CITIES, Workload

LOADS = "bench.treeloads"
# Times of decode-only: 300,000, 150,000 and 80,000 documents/s where decode-only does 4.2 million.
BOUNDS = (14.0, 28.0, 52.5)
LARGEST = 2.0  # limit of an update in the largest group, in units of one in a group of 10
TOP = 10
Beside = dict[str, float | None]
Server = postgres.Postgres | None


def by_city(plan: Plan) -> Iterator[Figure]:
    """Measure max by city at three batch sizes."""
    sizes = (*plan.batches, plan.batches[1] // 10)
    cases = [(f"batches of {size:,}", size, bound, False) for size, bound in zip(sizes, BOUNDS, strict=True)]
    yield from _beside_postgres("max", plan, lambda server: _greatest("max", plan, server, cases))


def half(plan: Plan) -> Iterator[Figure]:
    """Measure max by city with half of all documents in one city."""
    cases = [(f"batches of {size:,}", size, None, True) for size in plan.batches]
    yield from _beside_postgres("half", plan, lambda server: _greatest("half", plan, server, cases))


def tops(plan: Plan) -> Iterator[Figure]:
    """Measure batches in which the top 10 of every city fall."""
    yield from _beside_postgres("top", plan, lambda server: _tops(plan, server))


def updates(plan: Plan) -> Iterator[Figure]:
    """Measure one update, by the size of its group."""
    yield from _beside_postgres("update", plan, lambda server: _updates(plan, server))


def values(plan: Plan) -> Iterator[Figure]:
    """Measure distinct values and quantiles, exact, over one group of all values."""
    yield from _beside_postgres("values", plan, lambda server: _values(plan, server))


def _beside_postgres(name: str, plan: Plan, figures: Callable[[Server], Iterator[Figure]]) -> Iterator[Figure]:
    """Yield figures, with a PostgreSQL server beside them. If it is missing, print that."""
    if not plan.judged:
        yield from figures(None)
        return
    with ExitStack() as stack:
        server: Server = None
        try:
            server = stack.enter_context(postgres.server(plan.folder / "postgres"))
        except postgres.NoPostgres as missing:
            yield Figure(name, "PostgreSQL", 0.0, f"skipped: {missing}", {}, None)
        yield from figures(server)


def _rounds(plan: Plan, target: str, **how: Any) -> list[dict[str, Any]]:
    return [child.run(f"{LOADS}:{target}", 1, folder=plan.at("trees"), **how) for _ in range(plan.rounds)]


def _rate(rounds: list[dict[str, Any]], of: str = "seconds") -> float:
    return median(r["docs"] / r[of] for r in rounds)


def _idle(rounds: list[dict[str, Any]]) -> float | None:
    return min((r["idle"] for r in rounds if r["idle"] is not None), default=None)


def _greatest(
    name: str, plan: Plan, server: Server, cases: Sequence[tuple[str, int, float | None, bool]]
) -> Iterator[Figure]:
    for case, batch, bound, heavy in cases:
        docs = min(plan.docs, 1_000 * batch)
        rounds = _rounds(plan, "greatest", keys=plan.keys, docs=docs, batch=batch, heavy=heavy)
        beside: Beside = {"decode-only, µs": median(1e6 * r["decode"] / r["docs"] for r in rounds)}
        if server is not None:
            beside["PostgreSQL, documents/s"] = docs / _upserts(server, plan.keys, docs, batch, heavy)
        ratios = [r["seconds"] / r["decode"] for r in rounds]
        yield Figure(
            name,
            case,
            _rate(rounds),
            "documents/s",
            beside,
            _idle(rounds),
            f"time ≤ {bound:g} × decode-only" if bound else "",
            median(ratios),
            None if bound is None else plan.met(median(ratios) <= bound),
            {
                "documents per CPU second": _rate(rounds, "cpu"),
                "CPU time in decode-only": median(r["cpu"] / r["decode"] for r in rounds),
                "ratios": ratios,
            },
        )


_UPSERT = b"INSERT INTO users SELECT DISTINCT ON (id) id, city, amount FROM stage ORDER BY id, n DESC \
ON CONFLICT (id) DO UPDATE SET city = excluded.city, amount = excluded.amount;\n"


def _tables(server: postgres.Postgres) -> None:
    server.run(
        [
            b"DROP TABLE IF EXISTS users, stage;",
            b"CREATE TABLE users(id bigint PRIMARY KEY, city text, amount bigint);",
            b"CREATE INDEX by_city ON users(city, amount);",
            b"CREATE UNLOGGED TABLE stage(id bigint, city text, amount bigint, n serial);",
        ]
    )


def _upserts(server: postgres.Postgres, keys: int, docs: int, batch: int, heavy: bool) -> float:
    """Return the seconds for the same upserts, each batch a transaction, and for one read of every city's greatest."""
    work = Workload(keys, heavy=heavy)
    _tables(server)
    script: list[bytes] = []
    for at in range(0, docs, batch):
        part = b"".join(work.tuples(min(batch, docs - at)))
        script += [b"BEGIN;\nTRUNCATE stage;\nCOPY stage(id, city, amount) FROM STDIN;\n", part, b"\\.\n", _UPSERT]
        script.append(b"COMMIT;\n")
    cities = b"SELECT max(amount) FROM users WHERE city = 'c%d';\n"
    return server.timed([*script, *(cities % city for city in range(CITIES))])


def _tops(plan: Plan, server: Server) -> Iterator[Figure]:
    rounds = _rounds(plan, "retractions", keys=plan.keys, rounds=10 if plan.judged else 2)
    beside: Beside = {}
    if server is not None:
        work = Workload(plan.keys)
        _tables(server)
        rows = b"".join(work.tuples(plan.keys, every=True))
        server.run([b"COPY users FROM STDIN;\n", rows, b"\\.\nANALYZE users;\n"])
        fall = (
            b"UPDATE users SET amount = (random() * 500)::bigint WHERE id IN (SELECT t.id FROM (SELECT 'c' || n AS c "
            b"FROM generate_series(0, %d) n) s, LATERAL (SELECT id FROM users WHERE city = s.c "
            b"ORDER BY amount DESC LIMIT %d) t);\n" % (CITIES - 1, TOP)
        )
        beside["PostgreSQL, documents/s"] = 10 * CITIES * TOP / server.timed([fall] * 10)
    yield Figure(
        "top",
        "the top 10 fall",
        _rate(rounds),
        "documents/s",
        beside,
        _idle(rounds),
        detail={"documents per CPU second": _rate(rounds, "cpu"), "documents a batch": min(CITIES * TOP, plan.keys)},
    )


def _updates(plan: Plan, server: Server) -> Iterator[Figure]:
    sizes = [10, 1_000, 10_000, 100_000, 1_000_000] if plan.judged else [10, 100, 1_000]
    small = 100_000 if plan.judged else 100
    got = child.run(f"{LOADS}:updates", 1, folder=plan.at("trees"), sizes=sizes, count=200, small=small)
    others: list[float] = []
    if server is not None:
        _tables(server)
        starts = [sum(sizes[:i]) for i in range(len(sizes))]
        for start, size in zip(starts, sizes):
            server.run(
                [
                    b"INSERT INTO users SELECT i, 'g%d', (i::bigint * 7919) %% 1000000000 " % size,
                    b"FROM generate_series(%d, %d) i;\n" % (start, start + size - 1),
                ]
            )
        server.run([b"VACUUM ANALYZE users;\n"])
        for start, size in zip(starts, sizes):
            others.append(
                server.latency(_UPDATE.format(start=start, end=start + size - 1, size=size), 200, plan.folder)
            )
    for i, size in enumerate(sizes):
        ratio = got["wall"][i] / got["wall"][0]
        beside: Beside = {"smallest LMDB commit, µs": 1e6 * got["commit"], "CPU, µs": 1e6 * got["cpu"][i]}
        if others:
            beside["PostgreSQL, µs"] = 1e6 * others[i]
        last = i == len(sizes) - 1
        yield Figure(
            "update",
            f"one of {size:,}",
            1e6 * got["wall"][i],
            "µs",
            beside,
            got["idle"],
            f"≤ {LARGEST:g} × one of {sizes[0]}" if last else "",
            ratio,
            plan.met(ratio <= LARGEST) if last else None,
            {"CPU, in times of the first": got["cpu"][i] / got["cpu"][0], "groups of one beside": small},
        )
    for case, rows in got["rows"].items():
        read, written, *nodes = rows
        alone = case == "a group of one"
        yield Figure(
            "update",
            case,
            read,
            "rows read",
            {"rows written": written, "nodes read": nodes[0], "nodes written": nodes[1]},
            None,
            "1 read, 1 write" if alone else "",
            None,
            plan.met(rows == [1, 1, 0, 0]) if alone else None,
        )
    _plot(plan, sizes, got, others)


_UPDATE = """\\set id random({start}, {end})
\\set amount random(0, 1000000000)
BEGIN;
UPDATE users SET amount = :amount WHERE id = :id;
SELECT max(amount) FROM users WHERE city = 'g{size}';
COMMIT;
"""


def _plot(plan: Plan, sizes: list[int], got: dict[str, Any], others: list[float]) -> None:
    if plan.plots is None:
        return
    lines = {"CPU": got["cpu"], "put": got["wall"], **({"PostgreSQL": others} if others else {})}
    plan.plots.mkdir(parents=True, exist_ok=True)
    plot.svg(plan.plots / "update.svg", "one update of a group, by the number of its sources", sizes, lines)
    (plan.plots / "update.txt").write_text(plot.bars(sizes, got["cpu"]) + "\n", "utf-8")


def _values(plan: Plan, server: Server) -> Iterator[Figure]:
    n = 1_000_000 if plan.judged else 2_000
    asked = {
        "distinct": "count(DISTINCT v)",
        "quantiles": "percentile_disc(ARRAY[0.5, 0.99]) WITHIN GROUP (ORDER BY v)",
    }
    for reducer, sql in asked.items():
        got = child.run(f"{LOADS}:spread", 1, folder=plan.at("trees"), reducer=reducer, values=n, count=200)
        beside: Beside = {"CPU, µs": 1e6 * got["update cpu"]}
        if server is not None:
            beside["PostgreSQL, to ask anew, µs"] = 1e6 * _asked(server, n, sql)
        detail = {"documents/s to load": n / got["seconds"], "documents per CPU second": n / got["cpu"]}
        yield Figure("values", f"{reducer} of {n:,}", 1e6 * got["wall"], "µs", beside, got["idle"], detail=detail)


def _asked(server: postgres.Postgres, n: int, sql: str) -> float:
    """Return the seconds of a query over this number of values, at its third run."""
    server.run(
        [
            b"DROP TABLE IF EXISTS spread;\nCREATE TABLE spread(id bigint PRIMARY KEY, v bigint);\n",
            b"INSERT INTO spread SELECT i, (i::bigint * 7919) %% 1000003 * 10 FROM generate_series(1, %d) i;\n" % n,
            b"CREATE INDEX ON spread(v);\nVACUUM ANALYZE spread;\n",
        ]
    )
    return min(server.timed([f"SELECT {sql} FROM spread;\n".encode()]) for _ in range(3))
