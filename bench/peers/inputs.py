"""The input of each workload as a file of JSON lines, from a seed.

A line is a document with its `id` and `ts`, or a delete: `{"id": 7, "ts": 9, "deleted": true}`. `ts` increases over all
lines, so that the last line of an id is its greatest version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from bench import nested
from bench.workload import CITIES, NAMES, Workload

_PART = 100_000
_DELETE = b'{"id": %d, "ts": %d, "deleted": true}'
_CUSTOMER = b'{"id": %d, "country": "c%d", "ts": %d}'
_ORDER = b'{"id": %d, "customer": %d, "amount": %d, "ts": %d}'
_COUNTRIES = 200
_LETTERS = "åäöéßñçøłžшдюяαβγδ日本語中文字한국어"
_OTHERS = b", ".join([b'"f%d": %%d' % n for n in range(3, 31)])
_FIELDS = b'{"id": %d, "f1": "name%d", "f2": "c%d", ' + _OTHERS + b', "ts": %d}'

Lines = Iterator[list[bytes]]


def write(case: str, docs: int, keys: int, path: Path) -> None:
    """Write the lines of a case to a file, unless it exists."""
    if path.exists():
        return
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        for lines in MAKERS[case](docs, keys):
            file.write(b"\n".join(lines) + b"\n")
    part.replace(path)


def _parts(docs: int) -> Iterator[tuple[int, int]]:
    """Yield the first number and the length of each part of the lines."""
    for first in range(0, docs, _PART):
        yield first, min(_PART, docs - first)


def standard(docs: int, keys: int, heavy: bool = False) -> Lines:
    """Yield upserts of keys that are drawn at random."""
    work = Workload(keys, heavy=heavy)
    for _, n in _parts(docs):
        yield work.upserts(n)


def heavy(docs: int, keys: int) -> Lines:
    """Yield upserts of which half are in one city."""
    return standard(docs, keys, heavy=True)


def many(docs: int, keys: int) -> Lines:
    """Yield one document of each key, in no order."""
    work = Workload(keys)
    for _, n in _parts(docs):
        yield work.every_key(n)


def moves(docs: int, keys: int) -> Lines:
    """Yield a document of every key, and then deletes and upserts in turns."""
    work, random = Workload(keys), np.random.default_rng(2)
    first = min(keys, docs // 2)
    for _, n in _parts(first):
        yield work.every_key(n)
    for start, n in _parts(docs - first):
        lines = work.upserts(n)
        gone = random.integers(0, keys, n).tolist()
        for i in range(0, n, 2):
            lines[i] = _DELETE % (gone[i], first + start + i)
        yield lines


def sized(docs: int, keys: int) -> Lines:
    """Yield a document of every key, and then upserts."""
    work = Workload(keys)
    for _, n in _parts(keys):
        yield work.every_key(n)
    for _, n in _parts(docs - keys):
        yield work.upserts(n)


def orders(docs: int, keys: int) -> Lines:
    """Yield nested documents of 1.1 kB."""
    for first, n in _parts(docs):
        yield nested.lines(n, np.random.default_rng(first).integers(0, keys, n).tolist(), first)


def texts(docs: int, keys: int) -> Lines:
    """Yield documents with long texts, most of whose letters are not ASCII."""
    random = np.random.default_rng(4)
    for first, n in _parts(docs):
        rows = zip(
            range(first, first + n),
            random.integers(0, keys, n).tolist(),
            np.minimum(random.pareto(0.8, n), NAMES // 10).astype(int).tolist(),
            random.integers(0, CITIES, n).tolist(),
            random.integers(0, 1_000, n).tolist(),
            strict=True,
        )
        yield [
            f'{{"id": {key}, "name": "{_letters(name, 60)} {name}", "city": "{_letters(city, 40)} {city}", '
            f'"amount": {amount}, "note": "{_letters(ts, 300)}", "ts": {ts}}}'.encode()
            for ts, key, name, city, amount in rows
        ]


def fields(docs: int, keys: int) -> Lines:
    """Yield flat documents of 30 fields beside their key and ts."""
    random = np.random.default_rng(5)
    for first, n in _parts(docs):
        ids = random.integers(0, keys, n).tolist()
        names = np.minimum(random.pareto(0.8, n), NAMES).astype(int).tolist()
        cities = random.integers(0, CITIES, n).tolist()
        numbers = random.integers(0, 1_000, (n, 28)).tolist()
        rows = zip(ids, names, cities, numbers, range(first, first + n), strict=True)
        yield [_FIELDS % (key, name, city, *own, ts) for key, name, city, own, ts in rows]


def joined(docs: int, keys: int) -> Lines:
    """Yield customers, new orders of them, and then updates of orders of which half change the customer."""
    random, customers, ts = np.random.default_rng(6), max(1, keys // 10), 0
    keys = min(keys, docs - customers)
    of = random.integers(0, customers, keys)
    for first, n in _parts(customers):
        countries = random.integers(0, _COUNTRIES, n).tolist()
        yield [_CUSTOMER % (first + i, country, ts + i) for i, country in enumerate(countries)]
        ts += n
    for first, n in _parts(docs - customers):
        ids = np.arange(first, min(first + n, keys))
        updated = random.integers(0, keys, n - ids.size)
        moved = updated[random.random(updated.size) < 0.5]
        of[moved] = random.integers(0, customers, moved.size)
        ids = np.concatenate([ids, updated])
        rows = zip(
            ids.tolist(), of[ids].tolist(), random.integers(0, 1_000, n).tolist(), range(ts, ts + n), strict=True
        )
        yield [_ORDER % row for row in rows]
        ts += n


def _letters(seed: int, length: int) -> str:
    """Return a text of this length, equal for equal seeds."""
    start = seed * 7 % len(_LETTERS)
    return (_LETTERS[start:] + _LETTERS * (length // len(_LETTERS) + 1))[:length]


MAKERS: dict[str, Callable[[int, int], Lines]] = {
    "standard": standard,
    "moves": moves,
    "choices": standard,
    "heavy": heavy,
    "chain": standard,
    "many": many,
    "sized": sized,
    "nested": orders,
    "texts": texts,
    "fields": fields,
    "joined": joined,
}
