"""The ratios to reach, and the reason of each ratio that is missed, one line with the name of the peer."""

from __future__ import annotations

from bench.peers.systems import JOIN

AIMS = {
    ("PostgreSQL", "upserts"): 4.0,
    ("Flink", "memory"): 7.0,
    ("Flink", "storage"): 7.0,
    ("Kafka Streams", "upserts"): 15.0,
    ("Pathway", "upserts"): 6.0,
    ("Pathway", "append-only"): 1.0,
    ("Bytewax", "memory"): 10.0,
    ("DBSP", "storage"): 2.5,
    ("DBSP", "memory"): 1.5,
}
"""On workload 1: the rate of Penstock as a multiple of the rate of a peer, by peer and setting."""

LIMITS = frozenset({"decode only", "append and fsync", "Rust"})
"""Limits of the machine: they are shown, and no aim is to be ahead of them."""

_INGEST = (
    "deletes come by `ingest`, a Python object per record. Sorting the records one by one takes more than half of the "
    "time (cProfile). A form of `put_many` with deletes would take it away."
)
_TREES = "the durable trees of least, greatest and distinct values take 71 % of the time (cProfile)."
_SMALL = "It computes 50,000 documents anew in a few milliseconds of C++, which grow with the table."
_SYNC = (
    "a commit of Penstock syncs twice and makes 200 calls of Python and NumPy. The smallest one of SQLite syncs once, "
    "in C. Only native code would change that."
)
_IMPORT = (
    "nearly all of the time of Penstock is the import of 564 modules, 0.34 s of CPU. A second open in one process "
    "takes 12 ms."
)
_BESIDE = "it keeps writers out until the view is filled. Penstock builds it in steps between their batches."
_WITHOUT = (
    "half of the time is the put of the same documents without a join, and two fifths of that are decoding (cProfile). "
    "Its triggers find a customer by primary key."
)

REASONS: dict[tuple[int, str, str], str] = {
    (
        1,
        "",
        "DBSP",
    ): "40 % of the time is decoding to columns, which only native code would change. It writes no log per "
    "batch. This input fits its memory, and its one checkpoint comes at the end.",
    (2, "", "PostgreSQL"): _INGEST,
    (2, "", "SQLite"): _INGEST,
    (2, "", "DuckDB"): _INGEST,
    (2, "", "DBSP"): _INGEST,
    (3, "", "PostgreSQL"): f"{_TREES} It reads them from one index on city and amount.",
    (3, "", "SQLite"): f"{_TREES} It reads them from one index on city and amount, once per city and batch.",
    (3, "", "DuckDB"): f"{_TREES} {_SMALL}",
    (5, "", "DuckDB"): "a quarter of the time goes into Python objects of the rows between views (cProfile). " + _SMALL,
    (
        6,
        "",
        "DBSP",
    ): "every key is new. It sorts them in memory, and Penstock also writes the log, the index and the feed "
    "(not profiled).",
    (7, "", "SQLite"): _SYNC,
    (
        7,
        "p99 of a read",
        "SQLite",
    ): "batches of the writer hold the interpreter while the reader waits (not profiled).",
    (8, "", "SQLite"): _IMPORT,
    (8, "", "DuckDB"): _IMPORT,
    (9, "until it is complete", "PostgreSQL"): _BESIDE,
    (9, "until it is complete", "SQLite"): _BESIDE,
    (9, "until it is complete", "DuckDB"): "each refresh computes all views. Penstock builds the view in steps between "
    "batches.",
    (9, "longest wait of a writer", "PostgreSQL"): "a writer of Penstock waits until the store is open with the other "
    "app. That of PostgreSQL waits until the view is filled, which grows with the table.",
    (9, "longest wait of a writer", "DuckDB"): "a writer of Penstock waits until the store is open with the other app.",
    (11, "single", "SQLite"): _SYNC,
    (13, "", "PostgreSQL"): _WITHOUT,
}
"""The reason of a missed ratio, by workload, case or measure (or none), and peer. Profiles are of quick sizes."""

JOIN_AIMS = {"PostgreSQL": 4.0, "Pathway": 2.0, "DuckDB": 1.0}
"""The same on workload 13, the join."""


def aim(workload: int, system: str, setting: str) -> float | None:
    """Return the ratio to reach, or None for a limit of the machine."""
    if system in LIMITS:
        return None
    if workload == JOIN:
        return JOIN_AIMS.get(system)
    return AIMS.get((system, setting), 1.0) if workload == 1 else 1.0


def reason(workload: int, case: str, system: str) -> str:
    """Return the reason of a missed ratio, on one line."""
    measure = case.rpartition(": ")[2]
    found = REASONS.get((workload, measure, system)) or REASONS.get((workload, "", system))
    return found or "no profile of this case was taken."
