"""The leaderboard at work: the leaders, and their change when the leader's score is corrected or deleted.

python -m examples.leaderboard [SCORES]
"""

import sys
from collections.abc import Iterable
from typing import Any

import penstock as ps
from examples.demo.screen import heading, say, table
from examples.leaderboard.app import app
from examples.leaderboard.data import Match, scores

GAME = "chess"


def main(n: int) -> None:
    """Run the example with this number of scores."""
    given = list(scores(n))
    matches = {match["id"]: match for match in given}
    with ps.open(app, None) as engine:
        heading(f"{n:,} scores go in")
        say(str(engine.put_many("matches", given)))
        _show(engine)

        heading("The best score was written down wrongly")
        first = _leading(engine, matches.values())
        matches[first["id"]] = {**first, "score": first["score"] // 2, "ts": n + 1}
        say(str(engine.put("matches", matches[first["id"]])))
        _show(engine)

        heading("Who leads now has cheated in that match, and it is struck out")
        second = _leading(engine, matches.values())
        say(str(engine.delete("matches", second["id"], ts=n + 2)))
        del matches[second["id"]]
        _show(engine)
        check(engine, matches.values())
        say("all of it is what sorting the matches says")


def _show(engine: ps.Engine) -> None:
    with engine.snapshot() as snap:
        table((place, player, score) for place, (score, player) in enumerate(snap.view("leaders")[GAME], 1))


def _leading(engine: ps.Engine, matches: Iterable[Match]) -> Match:
    """Return the match with the leader's score."""
    with engine.snapshot() as snap:
        (score, player), *_ = snap.view("leaders")[GAME]
    return next(m for m in matches if (m["game"], m["player"], m["score"]) == (GAME, player, score))


def check(engine: ps.Engine, matches: Iterable[Match]) -> None:
    """Compare every view with sorted matches."""
    best: dict[tuple[str, str], int] = {}
    own: dict[str, list[int]] = {}
    for match in matches:
        key = match["game"], match["player"]
        best[key] = max(best.get(key, 0), match["score"])
        own.setdefault(match["player"], []).append(match["score"])
    played = {player: {"matches": len(s), "mean": sum(s) / len(s)} for player, s in own.items()}
    games = {game for game, _ in best}
    leaders: dict[Any, Any] = {
        game: sorted(([score, player] for (g, player), score in best.items() if g == game), reverse=True)[:5]
        for game in games
    }
    with engine.snapshot() as snap:
        for name, rows in {"best": best, "played": played, "leaders": leaders}.items():
            found = dict(snap.view(name).items())
            if found != rows:
                raise SystemExit(f"view {name} is {found} and should be {rows}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:] or ["1000"]))
