"""Scores of matches, from a seed; some are corrected later, up or down.

python -m examples.leaderboard.data [SCORES [SEED]]      prints them as JSON lines
"""

import json
import random
import sys
from collections.abc import Iterator
from typing import Any

Match = dict[str, Any]
_GAMES = ("chess", "go")
_PLAYERS = ("Ada", "Bob", "Eve", "Ida", "Joe", "Jon", "Kim", "Leo", "Liv", "Max", "Mia", "Ole", "Pia", "Ray", "Sam")


def scores(n: int, seed: int = 7) -> Iterator[Match]:
    """Yield n scores. A tenth of them correct an earlier one."""
    draw = random.Random(seed)
    given: list[Match] = []
    for ts in range(1, n + 1):
        if given and draw.random() < 0.1:
            place = draw.randrange(len(given))
            given[place] = {**given[place], "score": draw.randint(0, 1000), "ts": ts}
            yield given[place]
        else:
            match = {"id": len(given) + 1, "player": draw.choice(_PLAYERS), "game": draw.choice(_GAMES)}
            given.append({**match, "score": draw.randint(0, 1000), "ts": ts})
            yield given[-1]


if __name__ == "__main__":
    for match in scores(*map(int, sys.argv[1:] or ["1000"])):
        print(json.dumps(match))
