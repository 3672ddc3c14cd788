"""Small input that demands much work or memory: a kind of `make damage`.

Each kind of bomb enters on each path, in a process with little memory. A trial ends well if the bomb is rejected,
refused, or read with the memory that is left. It fails in three cases: the process runs out of memory, the store takes
no record afterwards, or an error is not one of Penstock's.
"""

from __future__ import annotations

import gzip
import random
import resource
import socket
import struct
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import zstandard

import penstock as ps
from penstock.cli.running.source_batches import LIMIT
from penstock.remote import socket_wire
from penstock.spout import Record, open_file
from penstock.spout.kafka_records import KEYS, KafkaFormat
from tests.spout.test_kafka_records import taken

MEMORY = 768 << 20
"""Bytes that a trial may use in addition to those of the process at its start."""
PATIENCE = 60
MB = 1 << 20

Way = Callable[[ps.Engine, random.Random, Path], Any]


def app() -> ps.App:
    """Return an app with a table and views of each kind."""
    out = ps.App("bombs")
    table = out.table("plain", key="id")
    table.view("sums", key="g", reduce=ps.sum("v"))
    table.view("most", key="g", reduce=ps.max("v"))

    @table.view(reduce=ps.count())
    def kinds(doc: dict[str, Any]) -> Any:
        yield type(doc.get("v")).__name__

    return out


def digits(rng: random.Random) -> str:
    """Return the text of an int whose conversion takes minutes."""
    return "7" * rng.randrange(2 * MB, 12 * MB)


def line(rng: random.Random) -> bytes:
    """Return a JSON line that demands much work or memory."""
    value = rng.choice(
        [
            lambda: digits(rng),
            lambda: "-" + digits(rng),
            lambda: digits(rng) + ".5",
            lambda: "1e" + digits(rng),
            lambda: "0." + digits(rng),
            lambda: "[" * rng.randrange(1, 5 * MB),
            lambda: '{"a":' * rng.randrange(1, MB),
            lambda: "[" + "[]," * rng.randrange(1, 2 * MB) + "[]]",
            lambda: "{" + ",".join(f'"{i}":{i}' for i in range(300_000)) + "}",
            lambda: '"' + "x" * rng.randrange(1, 14 * MB) + '"',
            lambda: '"' + "\\u0000" * rng.randrange(1, MB) + '"',
        ]
    )()
    field = rng.choice(["v", "g", "id", "other"])
    head = "" if field == "id" else f'"id": {rng.randrange(9)}, '
    return f'{{{head}"{field}": {value}}}'.encode()


def plain(n: int) -> list[bytes]:
    """Return ordinary lines."""
    return [b'{"id": %d, "g": "a", "v": %d}' % (100 + i, i) for i in range(n)]


def put(engine: ps.Engine, rng: random.Random, place: Path) -> Any:
    """Put one line or dict."""
    value: Any = rng.choice(
        [1 << rng.randrange(40_000, 40 * MB), Decimal("0." + digits(rng)), Decimal("1E+999999"), [[[]]] * MB]
    )
    doc = rng.choice([line(rng), line(rng).decode(), {"id": 1, rng.choice(["v", "g", "id", "other"]): value}])
    return engine.put("plain", doc)


def put_many(engine: ps.Engine, rng: random.Random, place: Path) -> Any:
    """Put a bomb among ordinary lines."""
    lines = plain(rng.randrange(3_000))
    lines.insert(rng.randrange(len(lines) + 1), line(rng))
    return engine.put_many("plain", lines)


def delete(engine: ps.Engine, rng: random.Random, place: Path) -> Any:
    """Delete a key that no document has."""
    return engine.delete("plain", rng.choice([1 << rng.randrange(40 * MB), "x" * 20 * MB, (("a",) * MB,), b"x" * MB]))


def ingest(engine: ps.Engine, rng: random.Random, place: Path) -> Any:
    """Ingest a record with an offset."""
    return engine.ingest([Record("plain", 1, line(rng))], source="s", resume=1)


def kafka(engine: ps.Engine, rng: random.Random, place: Path) -> Any:
    """Put a record of a topic: JSON or MessagePack, with a key."""
    packed = msgspec.msgpack.encode({"id": 1, "v": msgspec.msgpack.Ext(rng.choice([1, 2]), digits(rng).encode())})
    header = rng.choice([b"\xdd", b"\xdf", b"\xdb", b"\xc6"]) + struct.pack(">I", rng.randrange(1 << 32))
    value = rng.choice([line(rng), packed, b"\x81\xa1a" + header * rng.randrange(1, 1_000), None])
    key = rng.choice([digits(rng).encode(), b"[" * MB, packed, header, b"7"])
    found = taken(KafkaFormat(key_of=KEYS[rng.choice(["json", "text", "msgpack", "bytes"])]), (key, value))
    answer = engine.put_many("plain", found.batch.lines)
    for deletion in found.batch.deletes.values():
        answer = engine.delete("plain", deletion.key)
    return answer


def file(engine: ps.Engine, rng: random.Random, place: Path) -> Any:
    """Write a file of lines or rows, compressed or not."""
    kind = rng.choice(["csv", "jsonl"])
    texts: dict[str, list[Callable[[], bytes]]] = {
        "jsonl": [lambda: line(rng), lambda: bytes(rng.randrange(200 * MB)), lambda: b"x" * rng.randrange(200 * MB)],
        "csv": [
            lambda: b"id,v\n1," + digits(rng).encode(),
            lambda: ",".join(["id", *map(str, range(rng.randrange(600_000)))]).encode() + b"\n1",
            lambda: b'id,"' + b"x,\n" * rng.randrange(10 * MB),
            lambda: b'id,v\n1,"' + b"2,3\n" * rng.randrange(200_000),
            lambda: b"id,v\n" + b'"\n' * rng.randrange(100_000),
            lambda: b"id,v\n1," + b"[" * rng.randrange(120_000) + b"\n",
        ],
    }
    text = rng.choice(texts[kind])() + b"\n" + (plain(9)[0] if kind == "jsonl" else b"7,7") + b"\n"
    packing = rng.choice(["", ".gz", ".zst"])
    pack: dict[str, Callable[[bytes], bytes]] = {
        "": bytes,
        ".gz": lambda data: gzip.compress(data, 1),
        ".zst": zstandard.ZstdCompressor().compress,
    }
    path = place / f"bomb.{kind}{packing}"
    path.write_bytes(pack[packing](text))
    del text
    return loaded(engine, path)


def loaded(engine: ps.Engine, path: Path) -> ps.Counts:
    """Load a file."""
    spout = open_file(str(path), "plain")
    answer = ps.Counts()
    with engine.snapshot() as snap:
        spout.begin(snap.remembered)
    while not spout.ended:
        batch = spout.next_batch(LIMIT)
        if batch is not None:
            for _, counts in engine.load("plain", iter([batch])):
                answer += counts
    spout.close()
    return answer


def announce(engine: ps.Engine, rng: random.Random, place: Path) -> Any:
    """Announce a long message to the holder of a store, and send little."""
    one, other = socket.socketpair()
    with one, other:
        size = rng.randrange(1 << 32)
        one.sendall(struct.pack(">I", size) + rng.randbytes(min(size, rng.randrange(100_000))))
        one.shutdown(socket.SHUT_WR)
        try:
            return socket_wire.Wire(other).receive(PATIENCE)
        except socket_wire.WireClosed:
            return "gone"


def define(engine: ps.Engine, rng: random.Random, place: Path) -> Any:
    """Define a condition with a huge constant."""
    return ps.field("v") == rng.choice([1 << 40 * MB, Decimal("0." + digits(rng))])


WAYS: dict[str, Way] = {way.__name__: way for way in (put, put_many, delete, ingest, kafka, file, announce, define)}


def trial(rng: random.Random, place: Path) -> str:
    """Let one bomb in. Describe its end in a few words."""
    return explode(rng.choice(sorted(WAYS)), rng, place)


def explode(name: str, rng: random.Random, place: Path) -> str:
    """Let a bomb in on one path, with little memory."""
    with ps.open(app(), None) as engine:
        engine.put_many("plain", plain(2_000))
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (_size() + MEMORY, hard))
        try:
            end = _end(lambda: WAYS[name](engine, rng, place))
            assert all(len(entry.reason) < 10_000 for entry in engine.quarantine()), "a reason is as long as the bomb"
        except MemoryError:
            raise AssertionError(f"{name}: out of memory") from None
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        assert not engine.put("plain", {"id": 1, "g": "b", "v": 2}).rejected, "the store takes no record afterwards"
        assert engine.check().ok
    return f"{name} {end}"


def _end(work: Callable[[], Any]) -> str:
    try:
        answer = work()
    except ps.PenstockError as error:
        return f"refused by {type(error).__name__}"
    if isinstance(answer, ps.Counts):
        return "rejected" if answer.rejected else "held" if answer.held else "taken"
    return "read"


def _size() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def begin(folder: Path) -> Callable[[random.Random, Path], str]:
    """Return the function that runs a trial. The trials need no store of their own."""
    return trial
