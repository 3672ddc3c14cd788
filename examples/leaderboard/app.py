"""The tables and views of a leaderboard.

A match of a player is one document, {"id", "player", "game", "score", "ts"}, that a referee may correct or delete. The
best score of a player falls when its match is corrected or deleted. So scores are folded along a tree.
"""

from collections.abc import Iterator
from typing import Any

import penstock as ps

app = ps.App("leaderboard")
matches = app.table("matches", key="id", ts="ts")

best = matches.view("best", key=("game", "player"), value="score", reduce=ps.max())
played = matches.view("played", key="player", reduce={"matches": ps.count(), "mean": ps.mean("score")})


@best.view(reduce=ps.top(5))
def leaders(row: ps.Row) -> Iterator[Any]:
    """Yield the five best players of each game, with their scores, from a view on a view."""
    game, player = row.key
    yield game, [row.value, player]
