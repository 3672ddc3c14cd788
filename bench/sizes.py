"""The batch size from which columns are faster than plain values: µs per batch in memory, with both forms.

    python -m bench.sizes

Upserts of the standard workload go into a filled store. Two more cases add a view. One has the greatest amount by city,
with the contributions in the rows of their groups. The other has the median amount of all, with the contributions in
two trees. No disk is involved, because its cost is equal. The two engines take the same batches in turns. Each cell is
the lower quartile, so other load on the machine affects both.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from time import perf_counter
from typing import Any
from unittest import mock

import penstock as ps
from bench.workload import TABLE, Workload, app, cut
from penstock.cache import Limits
from penstock.mapreduce.tries import canonical_trie

ROUNDS, SIZES = 400, (1, 2, 4, 8, 12, 16)


def measure(size: int, shop: ps.App, keys: int) -> tuple[float, float]:
    """Return µs per batch of this number of records, as values and as columns."""
    work = Workload(keys)
    engines = [ps.open(shop, None, limits=Limits(few=few)) for few in (max(SIZES), 0)]
    for part in cut(work.upserts(keys), 10_000):
        for engine in engines:
            engine.put_many(TABLE, part)
    seconds: tuple[list[float], list[float]] = ([], [])
    forms: list[AbstractContextManager[object]] = [nullcontext(), mock.patch.object(canonical_trie, "FEW", 0)]
    for part in cut(work.upserts(ROUNDS * size), size):
        for engine, form, own in zip(engines, forms, seconds, strict=True):
            with form:
                began = perf_counter()
                engine.put_many(TABLE, part)
                own.append(perf_counter() - began)
    assert len({engine.digest() for engine in engines}) == 1, "both say the same"
    for engine in engines:
        engine.close()
    values, columns = (1e6 * sorted(own)[len(own) // 4] for own in seconds)
    return values, columns


def _amounts(reducer: Any, by: str | tuple[str, ...]) -> ps.App:
    shop = ps.App("amounts")
    shop.table(TABLE, key="id", ts="ts").view("amounts", key=by, value="amount", reduce=reducer)
    return shop


def _cases() -> dict[str, tuple[ps.App, int]]:
    """Return by name an app and the number of documents in its store."""
    return {
        "": (app(), 20_000),
        ", greatest by city": (_amounts(ps.max(), "city"), 5_000),
        ", middle of all": (_amounts(ps.quantiles([0.5]), ()), 20_000),
    }


def main() -> int:
    """Print the table."""
    print("| µs a batch of | " + " | ".join(str(size) for size in SIZES) + " |")
    print("|---|" + "---|" * len(SIZES))
    for what, (shop, keys) in _cases().items():
        rows = [measure(size, shop, keys) for size in SIZES]
        for name, column in (("values", 0), ("columns", 1)):
            print(f"| {name}{what} | " + " | ".join(f"{row[column]:.0f}" for row in rows) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
