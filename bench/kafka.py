"""`python -m bench.kafka`: topics in and out, and each client alone in the same run.

The broker is a real one: a JVM that this command starts. It has all cores, and the measured process has one
(`--cores`). In: upserts of 75 bytes from four partitions, until they are durable and in two views. Out: the changes of
a view, read from the feed, each of its own group. Rounds alternate. A figure is their median.
"""

from __future__ import annotations

import argparse
import importlib
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import penstock as ps
from bench import machine
from bench.child import run
from bench.report import Figure, Report, median
from bench.scratch import scratch
from bench.workload import TABLE, Workload, app
from examples.kafka.broker import Broker
from penstock.cli.running.feed_steps import FeedSteps
from penstock.cli.running.sink_thread import SINKS
from penstock.spout import SPOUTS, KafkaSpout, SpoutBatch

HERE = Path(__file__).resolve().parent
PARTITIONS = 4
_KEYS = 200_000
_AIMS = {"kafka-python": (100_000, 25_000), "confluent": (450_000, 300_000)}
_VIEW = "groups"


def made(servers: str, topic: str) -> dict[str, Any]:
    """Make a topic."""
    admin: Any = importlib.import_module("confluent_kafka.admin")
    client = admin.AdminClient({"bootstrap.servers": servers})
    client.create_topics([admin.NewTopic(topic, PARTITIONS, 1)])[topic].result()
    return {}


def filled(servers: str, topic: str, docs: int) -> dict[str, Any]:
    """Fill a topic with upserts."""
    made(servers, topic)
    ck: Any = importlib.import_module("confluent_kafka")
    producer = ck.Producer({"bootstrap.servers": servers, "linger.ms": 20, "enable.idempotence": True})
    for n, line in enumerate(Workload(_KEYS).upserts(docs)):
        while True:
            try:
                producer.produce(topic, line, None, n % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(60) == 0
    return {}


def alone_in(servers: str, topic: str, docs: int, client: str) -> dict[str, Any]:
    """Read the topic with the client alone."""
    if client == "confluent":
        ck: Any = importlib.import_module("confluent_kafka")
        options = {"bootstrap.servers": servers, "group.id": "bench", "fetch.queue.backoff.ms": 5}
        consumer = ck.Consumer({**options, "enable.auto.commit": False})
        consumer.assign([ck.TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        began, seen = _clocks(), 0
        while seen < docs:
            seen += len(consumer.consume(10_000, 1.0))
        return _timed(began, docs)
    kafka: Any = importlib.import_module("kafka")
    own = kafka.KafkaConsumer(
        bootstrap_servers=servers, enable_auto_commit=False, isolation_level="read_committed",
        max_partition_fetch_bytes=8 << 20, metrics_enabled=False,
    )  # fmt: skip
    places = [kafka.TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    own.assign(places)
    for place in places:
        own.seek(place, 0)
    began, seen = _clocks(), 0
    while seen < docs:
        seen += sum(map(len, own.poll(1_000, max_records=10_000).values()))
    return _timed(began, docs)


def taken(servers: str, topic: str, docs: int, client: str, folder: str) -> dict[str, Any]:
    """Read the topic with the spout, into a store on disk with two views."""
    store = Path(folder) / "taken"
    shutil.rmtree(store, ignore_errors=True)
    with ps.open(app(False), store) as engine:
        spout = SPOUTS.open(f"kafka://{servers}/{topic}?client={client}", TABLE)
        assert isinstance(spout, KafkaSpout)
        spout.timed = False  # as `run` sets it for a table without broker timestamps
        spout.begin(lambda source: None)
        began = _clocks()
        seen = 0

        def batches() -> Iterator[SpoutBatch]:
            while seen < docs:
                batch = spout.next_batch(50_000, 0.2)
                if batch is not None:
                    yield batch

        for batch, counts in engine.load(TABLE, batches()):
            seen += counts.records
            spout.committed(batch)
        out = _timed(began, docs)
        spout.close()
        work = Workload(_KEYS)
        work.upserts(docs)
        work.check(engine)
    shutil.rmtree(store)
    return out


def alone_out(servers: str, topic: str, docs: int, client: str) -> dict[str, Any]:
    """Write as many records of the same length with the client alone, idempotently."""
    rows = [(b"%d" % n, b'{"group":%d,"value":1}' % n) for n in range(docs)]
    if client == "confluent":
        ck: Any = importlib.import_module("confluent_kafka")
        options = {"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 5}
        producer = ck.Producer({**options, "queue.buffering.max.messages": 1_000_000})
        began = _clocks()
        for key, value in rows:
            producer.produce(topic, value, key)
        producer.flush()
        return _timed(began, docs)
    kafka: Any = importlib.import_module("kafka")
    own = kafka.KafkaProducer(
        bootstrap_servers=servers, enable_idempotence=True, acks="all", linger_ms=5, batch_size=1 << 18,
        metrics_enabled=False,
    )  # fmt: skip
    began = _clocks()
    for key, value in rows:
        own.send(topic, value, key=key)
    own.flush()
    return _timed(began, docs)


def given(servers: str, topic: str, docs: int, client: str) -> dict[str, Any]:
    """Write the topic with the sink, from the feed of a store."""
    own = ps.App("out")
    own.table(TABLE, key="id").view(_VIEW, key="id", reduce=ps.count())
    with ps.open(own, None) as engine:
        engine.put_many(TABLE, [b'{"id": %d}' % n for n in range(docs)])
        sink = SINKS.open(f"kafka://{servers}/{topic}?client={client}", _VIEW)
        assert sink.begin() is None
        began = _clocks()
        for changes, position in FeedSteps(engine, [_VIEW], 0).step():
            sink.write(changes)
            if position is not None:
                sink.holds(position)
        sink.close()
        return _timed(began, docs)


def _clocks() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def _timed(began: tuple[float, float], docs: int) -> dict[str, Any]:
    """Return documents per second, by the clock and by the CPU time of the process with all its threads."""
    wall, cpu = (now - then for now, then in zip(_clocks(), began, strict=True))
    return {"rate": docs / wall, "cpu": docs / cpu}


def figures(folder: str, docs: int, rounds: int, cores: int, clients: list[str]) -> Iterator[Figure]:
    """Yield all figures."""
    with Broker() as broker:
        servers = broker.servers
        run("bench.kafka:filled", servers=servers, topic="in", docs=docs)
        for client in clients:
            own = {"servers": servers, "client": client}
            out = docs if client == "confluent" else docs // 4
            rows: dict[str, list[dict[str, float]]] = {"in": [], "in alone": [], "out": [], "out alone": []}
            for n in range(rounds):
                one, other = f"alone-{client}-{n}", f"out-{client}-{n}"
                for topic in (one, other):
                    run("bench.kafka:made", servers=servers, topic=topic)
                rows["in alone"].append(run("bench.kafka:alone_in", cores, topic="in", docs=docs, **own))
                rows["in"].append(run("bench.kafka:taken", cores, topic="in", docs=docs, folder=folder, **own))
                rows["out alone"].append(run("bench.kafka:alone_out", cores, topic=one, docs=out, **own))
                rows["out"].append(run("bench.kafka:given", cores, topic=other, docs=out, **own))
            for way, aim in zip(("in", "out"), _AIMS[client], strict=True):
                yield _figure(way, client, aim, rows[way], rows[f"{way} alone"], docs >= 1_000_000)


def _figure(
    way: str, client: str, aim: int, got: list[dict[str, float]], alone: list[dict[str, float]], judged: bool
) -> Figure:
    rate, unit = median([one["rate"] for one in got]), "documents/s" if way == "in" else "changes/s"
    beside: dict[str, float | None] = {
        "a CPU second": median([one["cpu"] for one in got]),
        "the client alone": median([one["rate"] for one in alone]),
        "the client alone, a CPU second": median([one["cpu"] for one in alone]),
    }
    idle = median([one["idle"] for one in got])
    met = rate >= aim if judged else None
    return Figure(f"kafka {way}", client, rate, unit, beside, idle, f"≥ {aim:,} {unit}", rate / aim, met)


def main() -> None:
    parser = argparse.ArgumentParser("python -m bench.kafka", description=__doc__)
    parser.add_argument("--docs", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=1, help="for what is measured; 0: all")
    parser.add_argument("--client", action="append", choices=list(_AIMS), help="one of them; both, if none is said")
    parser.add_argument(
        "--dir",
        default=str(HERE / "run" / "kafka"),
        help="make the folder of this run here (on the disk to measure), and delete it at the end",
    )
    parser.add_argument("--results", type=Path, help="where the JSON lines go")
    asked = parser.parse_args()
    report = Report(machine.named(), asked.results)
    with scratch(asked.dir) as folder:
        clients = asked.client or list(_AIMS)
        report.add("kafka", figures(str(folder), asked.docs, asked.rounds, asked.cores, clients))


if __name__ == "__main__":
    main()
