"""Orders as they come, from a seed: they are placed, paid, changed and cancelled; a few come late or twice.

python -m examples.shop.data [VERSIONS [SEED]]      prints them as JSON lines
"""

import json
import random
import sys
from collections.abc import Iterator
from typing import Any

Order = dict[str, Any]
_ARTICLES = {"tea": 4.2, "cup": 7.5, "pot": 24.9, "spoon": 1.1, "honey": 6.35}
_COUNTRIES = ("NO", "SE", "DK", "FI")


def versions(n: int, seed: int = 7) -> Iterator[Order]:
    """Yield n versions of orders, each a whole document."""
    draw = random.Random(seed)
    made: list[Order] = []
    for ts in range(1, n + 1):
        if not made or draw.random() < 0.5:
            made.append(_placed(draw, len(made) + 1, ts))
            yield made[-1]
            continue
        place = draw.randrange(len(made))
        old = made[place]
        kind = draw.random()
        if kind < 0.05:
            yield old  # delivered again
        elif kind < 0.10:
            yield {**old, "status": "placed", "ts": 0}  # a late record of an old version
        else:
            made[place] = _changed(draw, old, ts)
            yield made[place]


def _placed(draw: random.Random, number: int, ts: int) -> Order:
    order = {
        "id": number,
        "customer": draw.randint(1, 200),
        "country": draw.choice(_COUNTRIES),
        "day": f"2024-06-{draw.randint(1, 30):02}",
        "status": "placed",
    }
    return {**order, **_basket(draw), "ts": ts}


def _changed(draw: random.Random, order: Order, ts: int) -> Order:
    if order["status"] == "placed" and draw.random() < 0.2:
        return {**order, **_basket(draw), "ts": ts}
    following = {
        "placed": ("paid", "paid", "paid", "cancelled"),
        "paid": ("paid", "cancelled"),
        "cancelled": ("placed",),
    }
    return {**order, "status": draw.choice(following[order["status"]]), "ts": ts}


def _basket(draw: random.Random) -> Order:
    articles = draw.sample(sorted(_ARTICLES), draw.randint(1, 3))
    pieces = {article: draw.randint(1, 4) for article in articles}
    items = [{"article": article, "pieces": n} for article, n in pieces.items()]
    return {"items": items, "total": round(sum(_ARTICLES[article] * n for article, n in pieces.items()), 2)}


if __name__ == "__main__":
    for order in versions(*map(int, sys.argv[1:] or ["1000"])):
        print(json.dumps(order))
