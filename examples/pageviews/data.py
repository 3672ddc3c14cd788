"""Views of pages as they arrive, from a seed: most within a second or two, some minutes late, some twice.

python -m examples.pageviews.data [VIEWS [SEED]]      prints them as JSON lines
"""

import json
import random
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

PageView = dict[str, Any]
_BEGIN = datetime(2024, 6, 1, 8, 0, tzinfo=UTC)
_PAGES = ("/", "/tea", "/cups", "/basket", "/about")


def arrivals(n: int, seed: int = 7) -> Iterator[PageView]:
    """Yield n page views in the order of their arrival, which differs from that of their times."""
    draw = random.Random(seed)
    now = 0.0
    coming: list[tuple[float, int]] = []
    views: dict[int, PageView] = {}
    for number in range(n):
        now += draw.expovariate(4.0)
        views[number] = {
            "id": number,
            "at": (_BEGIN + timedelta(seconds=now)).isoformat(timespec="milliseconds"),
            "page": draw.choice(_PAGES),
            "visitor": draw.randint(1, 300),
            "ms": draw.randint(5, 900),
        }
        late = draw.uniform(60, 300) if draw.random() < 0.05 else draw.uniform(0, 2)
        coming.append((now + late, number))
        if draw.random() < 0.02:
            coming.append((now + late + draw.uniform(0, 60), number))
    for _, number in sorted(coming):
        yield views[number]


if __name__ == "__main__":
    for view in arrivals(*map(int, sys.argv[1:] or ["1000"])):
        print(json.dumps(view))
