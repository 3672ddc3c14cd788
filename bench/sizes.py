"""Where plain values stop paying: µs a batch by its number of records, taken as values and as columns, in memory.

    python -m bench.sizes

Upserts of the standard workload into a filled store, and the same under a view of the greatest amount by city, whose
contributions stand in the rows of their groups. No disk is in it, since that costs the same either way. The two
engines take the same batches turn by turn, and each cell is the lower quartile, so that what else the machine does
falls on both.
"""

from __future__ import annotations

import sys
from time import perf_counter

import penstock as ps
from bench.workload import TABLE, Workload, app, cut
from penstock.cache import Limits

KEYS, ROUNDS, SIZES = 20_000, 400, (1, 2, 4, 8, 12, 16)
FEW_KEYS = 5_000  # of 500 cities: no group has nodes


def measure(size: int, greatest: bool) -> tuple[float, float]:
    """µs a batch of so many records, as values and as columns."""
    keys = FEW_KEYS if greatest else KEYS
    work = Workload(keys)
    shop = _greatest() if greatest else app()
    engines = [ps.open(shop, None, limits=Limits(few=few)) for few in (max(SIZES), 0)]
    for part in cut(work.upserts(keys), 10_000):
        for engine in engines:
            engine.put_many(TABLE, part)
    seconds: tuple[list[float], list[float]] = ([], [])
    for part in cut(work.upserts(ROUNDS * size), size):
        for engine, own in zip(engines, seconds, strict=True):
            began = perf_counter()
            engine.put_many(TABLE, part)
            own.append(perf_counter() - began)
    for engine in engines:
        if greatest:
            with engine.snapshot() as snap:
                assert dict(snap.view("greatest").items()) == work.greatest(), "the view differs from the input"
        else:
            work.check(engine)
        engine.close()
    values, columns = (1e6 * sorted(own)[len(own) // 4] for own in seconds)
    return values, columns


def _greatest() -> ps.App:
    shop = ps.App("greatest")
    shop.table(TABLE, key="id", ts="ts").view("greatest", key="city", value="amount", reduce=ps.max())
    return shop


def main() -> int:
    """Print the table."""
    print("| µs a batch of | " + " | ".join(str(size) for size in SIZES) + " |")
    print("|---|" + "---|" * len(SIZES))
    for what, greatest in (("", False), (", greatest by city", True)):
        rows = [measure(size, greatest) for size in SIZES]
        for name, column in (("values", 0), ("columns", 1)):
            print(f"| {name}{what} | " + " | ".join(f"{row[column]:.0f}" for row in rows) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
