"""The systems of the bench: environment, settings, the work that each can do, and an honest caveat."""

from __future__ import annotations

from dataclasses import dataclass

from bench.peers.environments import CargoProgram, Environment, MavenProgram, NodePackages, OwnPython, PythonPackages

PENSTOCK = "Penstock"
_MSGSPEC = "msgspec==0.20.0"
TWO_VIEWS = frozenset({1, 2, 4, 6})
"""The workloads with the two standard views."""
JOIN = 13
ALL = frozenset(range(1, JOIN))


@dataclass(frozen=True, slots=True)
class System:
    """One system. A system without batches of its own runs with one size only."""

    name: str
    environment: Environment
    settings: tuple[str, ...]
    workloads: frozenset[int]
    tuned: str
    caveat: str
    batches: bool = True
    slow: bool = False  # a quick run measures it on the first workload alone
    most: int | None = None  # documents at most, for a system that would take hours


SYSTEMS = (
    System(
        PENSTOCK,
        OwnPython("penstock"),
        ("upserts",),
        ALL | {JOIN},
        "field views; default settings; one synced commit per batch",
        "It also keeps the log of the documents, a feed of changes, and checksums of pages and rows. The peers do not.",
    ),
    System(
        "PostgreSQL",
        PythonPackages("postgres", ("psycopg[binary]==3.2.10", _MSGSPEC)),
        ("upserts",),
        ALL | {JOIN},
        "statement triggers with transition tables; COPY and one upsert per batch; synced commits; "
        "shared_buffers 2 GB, max_wal_size 16 GB, no JIT; fill factor 50 for views and 80 for the table; "
        "in the join an index by customer",
        "A server for many writers. Its client decodes the JSON with msgspec and sends rows. "
        "It keeps the columns alone, and no tombstones.",
    ),
    System(
        "SQLite",
        OwnPython("sqlite"),
        ("upserts",),
        ALL,
        "row triggers; write-ahead log, synchronous=FULL; cache of 512 MiB; one commit per batch",
        "It has row triggers only. The driver decodes the JSON with msgspec and binds rows from Python. "
        "It keeps the columns alone, and no tombstones.",
    ),
    System(
        "DuckDB",
        PythonPackages("recompute", ("duckdb==1.4.1",)),
        ("upserts",),
        ALL | {JOIN},
        "a table on disk with a primary key; an upsert per batch, then every view computed anew, in one transaction; "
        "all cores",
        "It has no incremental views: a refresh costs as much as the table is large. It reads the JSON itself, in C++. "
        "With few documents or large batches the computation is cheap.",
    ),
    System(
        "Pathway",
        PythonPackages("dataflow", ("pathway==0.33.0", _MSGSPEC)),
        ("upserts", "append-only"),
        frozenset({1, 4, JOIN}),
        "upserts by a connector in Python with a commit per batch; append-only by a file of JSON lines; one worker",
        "Its state is in memory, and nothing is synced. The connector passes each document from Python. "
        "Append-only counts each line as a document of its own, and retracts nothing. "
        "The two inputs of the join commit apart.",
    ),
    System(
        "Bytewax",
        PythonPackages("stateful", ("bytewax==0.21.1", _MSGSPEC)),
        ("memory", "recovery"),
        TWO_VIEWS - {6},
        "stateful steps by key and by group, deltas summed within a batch; recovery to SQLite each second; one worker",
        "Each step calls Python per document. With recovery a kill repeats up to a second of work.",
        slow=True,
        batches=False,
    ),
    System(
        "Kafka Streams",
        MavenProgram("streams", "kafka", "Peer"),
        ("upserts", "recovery"),
        TWO_VIEWS - {6},
        "a KTable grouped twice, RocksDB, caches of 256 MB, a commit each 500 ms; upserts: at least once, "
        "recovery: exactly_once_v2; one thread",
        "It reads a topic from a broker on the same machine, whose CPU time counts, and writes changelogs and "
        "repartition topics back to it. The clock includes the start of its topology.",
        slow=True,
        batches=False,
    ),
    System(
        "Flink",
        PythonPackages("flink", ("apache-flink==2.3.0", _MSGSPEC)),
        ("memory", "storage"),
        frozenset({1, 4}),
        "SQL by PyFlink; mini-batches of 10,000; memory: on the heap, storage: RocksDB with an incremental checkpoint "
        "each second; parallelism 1",
        "It reads a file, and the last line of an id wins. The clock includes the start of its job, in a "
        "JVM that ran a small one. The changes of its views go to a file as text.",
        slow=True,
        batches=False,
    ),
    System(
        "DBSP",
        CargoProgram("dbsp"),
        ("memory", "storage"),
        TWO_VIEWS | {JOIN},
        "an input map, a count and a sum; one worker; a transaction per batch; mimalloc; storage: default options and "
        "a checkpoint at the end",
        "A circuit compiled for these two views. Only the checkpoint is durable: a kill loses all batches since the "
        "last one. Its program decodes with serde_json and keeps the rows for readers in maps.",
    ),
    System(
        "PouchDB",
        NodePackages("pouch.js", ("pouchdb-node@9.0.0",)),
        ("upserts",),
        TWO_VIEWS - {6},
        "documents in LevelDB; a query of both views after each batch brings them up to date",
        "It keeps every revision, and syncs no write. It gets 20,000 documents, since more would take hours.",
        slow=True,
        most=20_000,
    ),
    System(
        "decode only",
        OwnPython("limits"),
        ("memory",),
        frozenset({1}),
        "msgspec, typed structs, in blocks of 1,024",
        "A limit, no peer: it keeps nothing.",
    ),
    System(
        "append and fsync",
        OwnPython("limits"),
        ("storage",),
        frozenset({1}),
        "one write and one fdatasync per batch",
        "A limit, no peer: it has no views and decodes nothing.",
    ),
    System(
        "Rust",
        CargoProgram("rust"),
        ("storage",),
        TWO_VIEWS,
        "serde_json, FxHashMap; one append and one fdatasync per batch; link-time optimization",
        "A program for these two views alone. Everything is in memory, and a restart reads the whole file.",
    ),
)


def system(name: str) -> System:
    """Return the system of this name."""
    return next(one for one in SYSTEMS if one.name == name)
