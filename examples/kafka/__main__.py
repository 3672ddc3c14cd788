"""Orders from one topic, sales into another: a broker is started, and `penstock run` is killed in the midst of it.

python -m examples.kafka [VERSIONS]
"""

import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import penstock as ps
from examples.demo.screen import heading, say, table
from examples.kafka.broker import Broker, NoBroker
from examples.shop.__main__ import winners
from examples.shop.app import app
from examples.shop.data import versions

kafka: Any = importlib.import_module("kafka")
admin: Any = importlib.import_module("kafka.admin")
_ROOT = Path(__file__).resolve().parents[2]
_PATIENCE = 60.0
_LOOK = 0.02


def main(n: int) -> None:
    """Run the example with this number of versions of orders."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            heading("A broker is started, with a topic of orders, and one for how many have which status")
            with Broker() as broker:
                say(f"kafka://{broker.servers}, its data in a temporary folder")
                _story(broker.servers, Path(folder) / "state", n)
        except NoBroker as error:
            raise SystemExit(f"{error}, then run this again") from None


def _story(servers: str, store: Path, n: int) -> None:
    own = admin.KafkaAdminClient(bootstrap_servers=servers)
    own.create_topics(
        [
            admin.NewTopic("orders", 2, 1),
            admin.NewTopic("by_status", 1, 1, topic_configs={"cleanup.policy": "compact"}),
        ]
    )
    own.close()
    coming = list(versions(n))
    heading(f"{n:,} versions of orders are produced, while penstock runs, and is killed")
    command = [sys.executable, "-m", "penstock", "run", "--app", str(_ROOT / "examples" / "shop" / "app.py")]
    command += ["--store", str(store), "--from", f"orders=kafka://{servers}/orders?group=shop"]
    command += ["--to", f"by_status=kafka://{servers}/by_status"]
    say("penstock run --from orders=kafka://…/orders?group=shop --to by_status=kafka://…/by_status")
    _produce(servers, coming[: n // 2])
    first = subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _until(store, first, lambda done: done > 0)
    first.kill()
    first.wait()
    say(f"killed (-9) when {_done(store):,} records were in")
    _produce(servers, coming[n // 2 :])
    again = subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    _until(store, again, lambda done: done == n)
    again.terminate()
    said, wrong = again.communicate(timeout=_PATIENCE)
    if again.returncode:
        raise SystemExit(wrong)
    for line in said.splitlines():
        say(line.replace(servers, "…"))
    _compare(servers, store, Counter(order["status"] for order in winners(coming).values()))


def _produce(servers: str, orders: list[Any]) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=servers, linger_ms=5)
    for order in orders:
        producer.send("orders", json.dumps(order).encode(), key=str(order["id"]).encode())
    producer.flush()
    producer.close()


def _done(store: Path) -> int:
    """Return the number of stored records: the sum of the offsets of all partitions."""
    with suppress(ps.StoreMissing), ps.open(app, store, readonly=True) as engine, engine.snapshot() as snap:
        return sum(snap.sources.values())
    return 0


def _until(store: Path, child: Any, is_there: Any) -> None:
    until = time.monotonic() + _PATIENCE
    while not is_there(_done(store)):
        if child.poll() is not None or time.monotonic() > until:
            child.kill()
            raise SystemExit("penstock run ended, or came to nothing")
        time.sleep(_LOOK)


def _compare(servers: str, store: Path, expected: Counter[str]) -> None:
    heading("What who reads the second topic has, keeping the latest value of each key")
    consumer = kafka.KafkaConsumer(bootstrap_servers=servers, enable_auto_commit=False)
    place = kafka.TopicPartition("by_status", 0)
    consumer.assign([place])
    consumer.seek_to_beginning(place)
    end, latest = consumer.end_offsets([place])[place], dict[bytes, Any]()
    while consumer.position(place) < end:
        for record in consumer.poll(200).get(place, ()):
            latest[record.key] = record.value
    consumer.close()
    found = {json.loads(key): json.loads(value)["value"] for key, value in latest.items() if value is not None}
    table(sorted(found.items()))
    with ps.open(app, store, readonly=True) as engine, engine.snapshot() as snap:
        view = dict(snap.view("by_status").items())
    if not found == view == expected:
        raise SystemExit(f"the topic says {found}, the view {view}, and it should be {dict(expected)}")
    say(f"all of it is in the view, and in {sum(expected.values()):,} orders counted anew")


if __name__ == "__main__":
    os.environ.pop("PENSTOCK_STORE", None)
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)
