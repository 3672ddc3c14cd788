"""`python -m bench.kafka`: topics in and out, beside what each client does alone in the same run.

The broker is a real one, one JVM that this starts; it has all cores, what is measured has one (`--cores`). In: upserts
of 75 bytes from four partitions, until they are durable and in two views. Out: the changes of a view, read from the
feed, each of a group of its own. Rounds alternate; a figure is their median.
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
from bench.workload import TABLE, Workload, app
from examples.kafka.broker import Broker
from penstock.cli.delivery import SINKS
from penstock.cli.steps import Steps
from penstock.spout import SPOUTS, SpoutBatch

HERE = Path(__file__).resolve().parent
PARTITIONS = 4
_KEYS = 200_000
_AIMS = {"kafka-python": (100_000, 25_000), "confluent": (450_000, 300_000)}
_VIEW = "groups"


def made(servers: str, topic: str) -> dict[str, Any]:
    """A topic."""
    admin: Any = importlib.import_module("confluent_kafka.admin")
    client = admin.AdminClient({"bootstrap.servers": servers})
    client.create_topics([admin.NewTopic(topic, PARTITIONS, 1)])[topic].result()
    return {}


def filled(servers: str, topic: str, docs: int) -> dict[str, Any]:
    """A topic with upserts."""
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
    """The client alone reads it."""
    if client == "confluent":
        ck: Any = importlib.import_module("confluent_kafka")
        options = {"bootstrap.servers": servers, "group.id": "bench", "fetch.queue.backoff.ms": 5}
        consumer = ck.Consumer({**options, "enable.auto.commit": False})
        consumer.assign([ck.TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        began, seen = time.perf_counter(), 0
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
    began, seen = time.perf_counter(), 0
    while seen < docs:
        seen += sum(map(len, own.poll(1_000, max_records=10_000).values()))
    return _timed(began, docs)


def taken(servers: str, topic: str, docs: int, client: str, folder: str) -> dict[str, Any]:
    """The spout, into a store on the disk with two views."""
    store = Path(folder) / "taken"
    shutil.rmtree(store, ignore_errors=True)
    with ps.open(app(False), store) as engine:
        spout = SPOUTS.open(f"kafka://{servers}/{topic}?client={client}", TABLE)
        spout.begin(lambda source: None)
        began = time.perf_counter()
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
    """The client alone writes as many records as long, idempotently."""
    rows = [(b"%d" % n, b'{"group":%d,"value":1}' % n) for n in range(docs)]
    if client == "confluent":
        ck: Any = importlib.import_module("confluent_kafka")
        options = {"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 5}
        producer = ck.Producer({**options, "queue.buffering.max.messages": 1_000_000})
        began = time.perf_counter()
        for key, value in rows:
            producer.produce(topic, value, key)
        producer.flush()
        return _timed(began, docs)
    kafka: Any = importlib.import_module("kafka")
    own = kafka.KafkaProducer(
        bootstrap_servers=servers, enable_idempotence=True, acks="all", linger_ms=5, batch_size=1 << 18,
        metrics_enabled=False,
    )  # fmt: skip
    began = time.perf_counter()
    for key, value in rows:
        own.send(topic, value, key=key)
    own.flush()
    return _timed(began, docs)


def given(servers: str, topic: str, docs: int, client: str) -> dict[str, Any]:
    """The sink, from the feed of a store."""
    own = ps.App("out")
    own.table(TABLE, key="id").view(_VIEW, key="id", reduce=ps.count())
    with ps.open(own, None) as engine:
        engine.put_many(TABLE, [b'{"id": %d}' % n for n in range(docs)])
        sink = SINKS.open(f"kafka://{servers}/{topic}?client={client}", _VIEW)
        assert sink.begin() is None
        began = time.perf_counter()
        for changes, position in Steps(engine, [_VIEW], 0).step():
            sink.write(changes)
            if position is not None:
                sink.holds(position)
        sink.close()
        return _timed(began, docs)


def _timed(began: float, docs: int) -> dict[str, Any]:
    return {"seconds": time.perf_counter() - began, "cpu": time.process_time(), "docs": docs}


def figures(folder: str, docs: int, rounds: int, cores: int, clients: list[str]) -> Iterator[Figure]:
    """All of them."""
    with Broker() as broker:
        servers = broker.servers
        run("bench.kafka:filled", servers=servers, topic="in", docs=docs)
        for client in clients:
            own = {"servers": servers, "client": client}
            out = docs if client == "confluent" else docs // 4
            rows: dict[str, list[float]] = {"in": [], "in alone": [], "out": [], "out alone": []}
            for n in range(rounds):
                for topic in (f"alone-{client}-{n}", f"out-{client}-{n}"):
                    run("bench.kafka:made", servers=servers, topic=topic)
                got = run("bench.kafka:alone_in", cores, topic="in", docs=docs, **own)
                rows["in alone"].append(docs / got["seconds"])
                got = run("bench.kafka:taken", cores, topic="in", docs=docs, folder=folder, **own)
                rows["in"].append(docs / got["seconds"])
                got = run("bench.kafka:alone_out", cores, topic=f"alone-{client}-{n}", docs=out, **own)
                rows["out alone"].append(out / got["seconds"])
                got = run("bench.kafka:given", cores, topic=f"out-{client}-{n}", docs=out, **own)
                rows["out"].append(out / got["seconds"])
            for way, aim in zip(("in", "out"), _AIMS[client], strict=True):
                rate = median(rows[way])
                beside: dict[str, float | None] = {"the client alone": median(rows[f"{way} alone"])}
                unit = "documents/s" if way == "in" else "changes/s"
                judged = rate >= aim if docs >= 1_000_000 else None
                yield Figure(f"kafka {way}", client, rate, unit, beside, None, f"≥ {aim:,} {unit}", rate / aim, judged)


def main() -> None:
    parser = argparse.ArgumentParser("python -m bench.kafka", description=__doc__)
    parser.add_argument("--docs", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=1, help="for what is measured; 0: all")
    parser.add_argument("--client", action="append", choices=list(_AIMS), help="one of them; both, if none is said")
    parser.add_argument("--dir", default=str(HERE / "run" / "kafka"), help="where stores go")
    parser.add_argument("--results", type=Path, help="where the JSON lines go")
    asked = parser.parse_args()
    report = Report(machine.named(), asked.results)
    try:
        clients = asked.client or list(_AIMS)
        report.add("kafka", figures(asked.dir, asked.docs, asked.rounds, asked.cores, clients))
    finally:
        shutil.rmtree(asked.dir, ignore_errors=True)


if __name__ == "__main__":
    main()
