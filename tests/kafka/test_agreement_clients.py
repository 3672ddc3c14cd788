"""Compare the two clients: the same topic, read in different portions, gives the same store, byte for byte.

The same is true for readers that keep whole records and readers that keep only the values of JSON objects.
"""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec

import penstock as ps
from tests.kafka.reading import read, shop, spout, users
from tests.kafka.server import Row, Server

POISON = (b"", b"no", b"[]", b'{"id": null}', b'{"id": 3', b"\xc1", b"{}", b'{"id": 5}x')


def drawn(seed: int, many: int) -> list[Row]:
    """Return random records of all kinds."""
    draw = random.Random(seed)
    out: list[Row] = []
    for n in range(many):
        key = draw.randrange(12)
        own: dict[str, Any] = {"id": key, "name": draw.choice(["Sue", "Joe", "Åse"]), "n": draw.choice([n, 0.5, None])}
        value = draw.choice([json.dumps(own).encode(), msgspec.msgpack.encode(own), None, draw.choice(POISON)])
        out.append((None if value is None and draw.random() < 0.1 else b"%d" % key, value))
    return out


def expected(parts: list[list[Row]]) -> dict[int, Any]:
    """Return the documents of keys that occur in one partition only, by a loop over the records of all partitions."""
    out: dict[int, Any] = {}
    for rows in parts:
        for key, value in rows:
            if value is None:
                out.pop(int(key or b"-1"), None)
                continue
            try:
                own = json.loads(value) if value[:1] == b"{" else msgspec.msgpack.decode(value)
            except (ValueError, msgspec.MsgspecError):
                continue
            if isinstance(own, dict) and own.get("id") is not None:
                out[own["id"]] = own
    return out


def test_both_clients_leave_the_same_store(server: Server) -> None:
    for seed in range(3):
        topic = server.topic()
        rows = drawn(seed, 300)
        server.transaction(topic, rows[:100], commit=True)
        server.transaction(topic, [(b"1", b'{"id": 1, "name": "aborted"}')] * 5, commit=False)
        server.produce(topic, rows[100:])
        left: list[Any] = []
        for client in ("kafka-python", "confluent"):
            for limit, timed in ((1_000, True), (17, False), (40, False)):
                with ps.open(shop(), None) as engine:
                    done = 0
                    while done < len(rows):  # reopened after every hundred records
                        with spout(server, engine, topic, client, timed=timed) as own:
                            part = min(100, len(rows) - done)
                            counts = read(engine, own, part, min(limit, part))
                            done += counts.applied + counts.equal + counts.late + counts.rejected
                    assert done == len(rows)
                    entries = [(one.offset, one.place, one.reason, one.data) for one in engine.quarantine()]
                    assert all((one.ts is not None) == timed for one in engine.quarantine())
                    left.append((engine.digest(), engine.status()["sources"], entries))
                    assert users(engine) == expected([rows])
        assert all(one == left[0] for one in left)
        assert left[0][2]
