"""The input, from a seed, and the expected rows of the views.

An upsert is `{"id","name","city","amount","ts"}`: ids uniform over the keys, names Pareto(0.8) capped at 20,000, 500
cities. `ts` increases over all lines of one `Workload`. So passes after the first are updates, and none is late.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import penstock as ps

TABLE = "users"
NAMES, CITIES, AMOUNTS = 20_000, 500, 1_000
_STEP = 7_368_787  # prime, so that multiples of it visit every key once, in no order
_LINE = b'{"id": %d, "name": "name%d", "city": "c%d", "amount": %d, "ts": %d}'
_TEXT_LINE = b'{"id": "user-%d", "name": "name%d", "city": "c%d", "amount": %d, "ts": %d}'


class Workload:
    """Lines, and the winning document of each key, in arrays."""

    def __init__(self, keys: int, seed: int = 1, text: bool = False, heavy: bool = False) -> None:
        assert keys % _STEP, f"{keys} keys: a multiple of {_STEP} would not be visited whole"
        self.keys = keys
        self._line = _TEXT_LINE if text else _LINE
        self._text = text
        self._heavy = heavy  # half of all documents are in one city
        self._random = np.random.default_rng(seed)
        self._ts = 0
        self._visited = 0
        self._name = np.full(keys, -1, np.int16)
        self._city = np.full(keys, -1, np.int16)
        self._amount = np.full(keys, -1, np.int16)

    @property
    def nbytes(self) -> int:
        """Return the memory of the arrays, which does not belong to the engine."""
        return self._name.nbytes + self._city.nbytes + self._amount.nbytes

    def key(self, number: int) -> int | str:
        """Return the document key of a number below `keys`."""
        return f"user-{number}" if self._text else number

    def upserts(self, n: int) -> list[bytes]:
        """Return lines for keys drawn at random."""
        return self._lines(self._random.integers(0, self.keys, n))

    def every_key(self, n: int) -> list[bytes]:
        """Return lines for the next n keys. `keys` of them visit each key once, in no order."""
        ids = np.arange(self._visited, self._visited + n, dtype=np.int64) * _STEP % self.keys
        self._visited += n
        return self._lines(ids)

    def tuples(self, n: int, every: bool = False) -> list[bytes]:
        """Return rows for other databases: key, city and amount of the next upserts, or of every key."""
        ids = np.arange(n, dtype=np.int64) if every else self._random.integers(0, self.keys, n)
        _, city, amount, _ = self._draw(ids)
        return [b"%d\tc%d\t%d\n" % row for row in zip(ids.tolist(), city.tolist(), amount.tolist(), strict=True)]

    def _lines(self, ids: NDArray[np.int64]) -> list[bytes]:
        name, city, amount, ts = self._draw(ids)
        rows = zip(ids.tolist(), name.tolist(), city.tolist(), amount.tolist(), ts, strict=True)
        return [self._line % row for row in rows]

    def _draw(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.int16], NDArray[np.int64], NDArray[np.int64], range]:
        """Draw the fields of the next documents of these ids, and remember them."""
        n = ids.size
        name = np.minimum(self._random.pareto(0.8, n) + 1, NAMES - 1).astype(np.int16)
        city = self._random.integers(0, CITIES, n)
        if self._heavy:
            city[self._random.random(n) < 0.5] = 0
        amount = self._random.integers(0, AMOUNTS, n)
        ts = range(self._ts, self._ts + n)
        self._ts += n
        self._name[ids], self._city[ids], self._amount[ids] = name, city, amount
        return name, city, amount, ts

    def expected(self) -> tuple[dict[str, int], dict[str, dict[str, int]]]:
        """Return both views, computed from the arrays."""
        present = self._city >= 0
        names = np.bincount(self._name[present])
        counts = np.bincount(self._city[present])
        sums = np.bincount(self._city[present], self._amount[present]).astype(np.int64)
        by_name = {f"name{i}": int(names[i]) for i in np.flatnonzero(names)}
        by_city = {f"c{i}": {"n": int(counts[i]), "total": int(sums[i])} for i in np.flatnonzero(counts)}
        return by_name, by_city

    def greatest(self) -> dict[str, int]:
        """Return the greatest amount by city, computed from the arrays."""
        best = np.full(CITIES, -1)
        np.maximum.at(best, self._city[self._city >= 0], self._amount[self._city >= 0])
        return {f"c{i}": int(best[i]) for i in np.flatnonzero(best >= 0)}

    def check(self, engine: ps.Engine) -> None:
        """Compare the engine's views with the arrays."""
        by_name, by_city = self.expected()
        with engine.snapshot() as snap:
            assert dict(snap.view("by_name").items()) == by_name, "by_name differs from the input"
            assert dict(snap.view("by_city").items()) == by_city, "by_city differs from the input"


def app(functions: bool = False) -> ps.App:
    """Return an app with count by name, and count and sum of amount by city, as field views or as Python functions."""
    shop = ps.App("bench")
    users = shop.table(TABLE, key="id", ts="ts")
    if not functions:
        users.view("by_name", key="name", reduce=ps.count())
        users.view("by_city", key="city", reduce={"n": ps.count(), "total": ps.sum("amount")})
        return shop

    @users.view(reduce=ps.count())
    def by_name(user: dict[str, Any]) -> Iterator[Any]:
        yield user["name"]

    @users.view(reduce={"n": ps.count(), "total": ps.sum()})
    def by_city(user: dict[str, Any]) -> Iterator[Any]:
        yield user["city"], user["amount"]

    return shop


def cut(lines: list[bytes], size: int) -> list[list[bytes]]:
    """Return a list in batches."""
    return [lines[a : a + size] for a in range(0, len(lines), size)]
