"""Measure the console beside load: `make console-load`. It prints its figures; no test judges them.

A view has 100,000 groups, and 10,000 of them change per second. The figures are times: of pages, from a put to the
changed cell, and from a click to its answer. Beside them are the memory of the front and the CPU of the holder.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from tests.serve.browser.browser import begin_browser
from tests.serve.browser.console_shop import put
from tests.serve.serving import RunningServer

APP = """
import penstock as ps

app = ps.App("load")
ticks = app.table("ticks", key="id")
by_place = ticks.view("by_place", key="place", reduce={"n": ps.count(), "total": ps.sum("amount")})
"""
_PAUSE = threading.Event()
_STRIDE = 7_919  # a prime, so the groups of each part lie apart
_WATCH = """
window.longest = 0; window.frames = 0;
new PerformanceObserver(l => { for (const e of l.getEntries()) window.longest = Math.max(window.longest, e.duration) })
  .observe({type: "longtask"});
new MutationObserver(l => { window.frames += 1; const own = document.querySelector('tbody tr');
  if (own) window.last = [own.cells[2].textContent, Date.now()]; })
  .observe(document.querySelector('table.rows'), {subtree: true, childList: true, characterData: true});
"""
_CLICK = """
const done = arguments[0], began = performance.now();
document.querySelector('input[name=reverse]').click();
requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - began)));
"""


def documents(first: int, number: int, groups: int, round_: int) -> list[dict[str, Any]]:
    """Return documents that change as many groups."""
    chosen = [i * _STRIDE % groups for i in range(first, first + number)]
    return [{"id": own, "place": f"g{own:06d}", "amount": round_} for own in chosen]


class Load:
    """A thread that changes groups at a rate."""

    def __init__(self, server: RunningServer, groups: int, rate: int) -> None:
        self.changes = 0
        self._stop = threading.Event()
        self._work = (server, groups, rate)
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        server, groups, rate = self._work
        part, began = 1_000, time.monotonic()
        while not self._stop.is_set():
            put(server, "ticks", documents(self.changes, part, groups, self.changes // groups + 2))
            self.changes += part
            self._stop.wait(max(0.0, began + self.changes / rate - time.monotonic()))


def cpu(pid: int) -> float:
    """Return the seconds of CPU of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> float:
    """Return the megabytes of a process that are its own, without pages of the store."""
    text = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("RssAnon")) / 1e3


def shown_after(browser: Any, server: RunningServer, rounds: int) -> list[float]:
    """Return the milliseconds from the answer of a put to the changed cell, for single puts in a page at rest."""
    out = []
    for i in range(rounds):
        put(server, "ticks", [{"id": 0, "place": "g000000", "amount": 1_000_000 + i}])
        answered = time.time() * 1000
        wanted = f"{1_000_000 + i:,}"
        while (browser.execute_script("return window.last") or [""])[0] != wanted:
            pass
        out.append(browser.execute_script("return window.last[1]") - answered)
        _PAUSE.wait(0.4)
    return out


def page_times(server: RunningServer, path: str, rounds: int = 20) -> list[float]:
    """Return the milliseconds of requests for a page."""
    out = []
    for _ in range(rounds):
        began = time.monotonic()
        assert server.ask("GET", path, accept="text/html").status == 200
        out.append(1000 * (time.monotonic() - began))
    return out


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=100_000)
    parser.add_argument("--rate", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=15.0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, RunningServer(Path(folder), app=APP) as server:
        for first in range(0, asked.groups, 10_000):
            put(server, "ticks", documents(first, min(10_000, asked.groups - first), asked.groups, 1))
        for path in ("/", "/graph", "/views/by_place", "/feed"):
            figures(f"page {path}, ms", page_times(server, path))
        browser = begin_browser()
        try:
            browser.get(f"http://127.0.0.1:{server.port}/views/by_place?limit=500&token={server.token}")
            browser.execute_script(_WATCH)
            figures("a put until its cell has changed, ms", shown_after(browser, server, 20))
            with_load(browser, server, asked)
        finally:
            browser.quit()


def with_load(browser: Any, server: RunningServer, asked: argparse.Namespace) -> None:
    """Measure the page, the front and the holder beside load, with the page open and closed in turn."""
    pids, each = server.children(), dict[str, list[float]]()
    with Load(server, asked.groups, asked.rate) as load:
        for turn in range(4):
            page = "open" if turn % 2 == 0 else "closed"
            where = "/views/by_place?limit=500" if page == "open" else "/sign-in"
            browser.get(f"http://127.0.0.1:{server.port}{where}")
            if page == "open":
                browser.execute_script(_WATCH)
            before, began, first = load.changes, time.monotonic(), {name: cpu(pid) for name, pid in pids.items()}
            clicks = list[float]()
            while time.monotonic() - began < asked.seconds:
                _PAUSE.wait(1)
                if page == "open":
                    clicks.append(browser.execute_async_script(_CLICK))
            changes, seconds = load.changes - before, time.monotonic() - began
            used = {name: cpu(pid) - first[name] for name, pid in pids.items()}
            each.setdefault(page, []).append(1e6 * used["holder"] / max(changes, 1))
            line = f"page {page}: {changes / seconds:,.0f} changes/s, front {memory(pids['front']):.0f} MB, "
            line += f"front {100 * used['front'] / seconds:.0f} % of a core, holder {each[page][-1]:.1f} µs/change"
            print(line)
            if clicks:
                figures("  a click until the next frames, ms", clicks)
                longest, frames = browser.execute_script("return [window.longest, window.frames]")
                print(f"  longest task {longest:.0f} ms, {frames / seconds:.1f} updates/s: {rate_shown(browser)}")
    ratio = statistics.mean(each["open"]) / statistics.mean(each["closed"])
    print(f"holder with an open page: {100 * (ratio - 1):+.1f} % CPU per change")


def rate_shown(browser: Any) -> str:
    """Return the text of the page about its rate."""
    return str(browser.find_element("id", "live-rate").text)


def figures(name: str, values: list[float]) -> None:
    """Print the median and the greatest of some values."""
    print(f"{name}: median {statistics.median(values):.0f}, greatest {max(values):.0f}")


if __name__ == "__main__":
    main()
