"""Page views at work: windows fill as time passes, and also count late page views correctly.

python -m examples.pageviews [VIEWS]
"""

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable

import penstock as ps
from examples.demo.screen import heading, say, table
from examples.pageviews.app import app
from examples.pageviews.data import PageView, arrivals


def main(n: int) -> None:
    """Run the example with this number of page views."""
    coming = list(arrivals(n))
    half = len(coming) // 2
    with ps.open(app, None) as engine:
        heading("The first half arrives")
        say(str(engine.put_many("pageviews", coming[:half])))
        window = coming[half - 1]["at"][:16]
        _show(engine, window)

        heading("So does the rest: some of it is of minutes that seemed over, some has come before")
        say(str(engine.put_many("pageviews", coming[half:])))
        late = sum(view["at"][:16] <= window for view in coming[half:])
        say(f"{late:,} of these were of {window[11:]} or before it")
        _show(engine, window)
        check(engine, coming)
        say("all windows are those of the views, counted anew, each once")


def _show(engine: ps.Engine, window: str) -> None:
    with engine.snapshot() as snap:
        key = (window[:13], window[14:16])
        row = snap.view("minutes")[key]
        say(f"{window[11:]} has {row['views']} views by {row['visitors']} visitors, {row['ms']:.0f} ms each")
        say("of these by page:")
        table((page, views) for (_, page), views in snap.view("pages").items(prefix=(window,)))
        say(f"the busiest minutes of the hour: {snap.view('busiest')[window[:13]]}")


def check(engine: ps.Engine, arrived: Iterable[PageView]) -> None:
    """Compare every window with a count."""
    views = {view["id"]: view for view in arrived}.values()
    pages = Counter((view["at"][:16], view["page"]) for view in views)
    of_minute: defaultdict[tuple[str, str], list[PageView]] = defaultdict(list)
    for view in views:
        of_minute[view["at"][:13], view["at"][14:16]].append(view)
    minutes = {
        key: {
            "views": len(own),
            "ms": sum(v["ms"] for v in own) / len(own),
            "visitors": len({v["visitor"] for v in own}),
        }
        for key, own in of_minute.items()
    }
    hours = {hour for hour, _ in minutes}
    busiest = {
        hour: sorted(([row["views"], minute] for (h, minute), row in minutes.items() if h == hour), reverse=True)[:3]
        for hour in hours
    }
    with engine.snapshot() as snap:
        for name, rows in {"pages": pages, "minutes": minutes, "busiest": busiest}.items():
            found = dict(snap.view(name).items())
            if found != rows:
                raise SystemExit(f"view {name} is {found} and should be {rows}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:] or ["3000"]))
