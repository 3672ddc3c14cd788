"""Draw the terminal pictures of `docs/guide/command-line.md` as SVG, from the leaderboard example.

python -m examples.pictures [FOLDER]

`explain` and `why` run on a terminal. For `watch` its table is drawn, with a clock that stands still between two
scores, so that the pictures are equal in every run.
"""

import io
import os
import pty
import subprocess
import sys
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console, RenderableType
from rich.text import Text

import penstock as ps
from examples.leaderboard.app import app
from examples.leaderboard.data import scores
from penstock.cli.drawing.watch_table import WatchTable
from penstock.cli.running.feed_steps import FeedSteps

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs"
_WIDTH = 96
_BEFORE, _LIVE = 400, 90  # scores before the pictures begin, and scores during `watch`
_BATCH = 50
_WATCHED = ["best", "played"]
_EVERY = 0.05  # seconds between two scores
_PAGE = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, monospace; font-size: {char_height}px;
line-height: {line_height}px }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: arial, sans-serif }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def main(folder: Path) -> None:
    """Write all pictures to a folder."""
    folder.mkdir(exist_ok=True)
    with TemporaryDirectory() as place:
        store = Path(place, "state")
        with ps.open(app, store) as engine:
            watched = _watch(engine)
        best = ["why", "best", '["chess", "Ole"]']
        pictures: dict[str, list[RenderableType]] = {
            "watch": [_typed(["watch", *_WATCHED]), watched],
            "explain": [*_shown(store, ["explain"]), Text(), *_shown(store, ["explain", "leaders"])],
            "why": [*_shown(store, best), Text(), *_shown(store, [*best, "--history"])],
        }
    for name, parts in pictures.items():
        (folder / f"{name}.svg").write_text(_drawn(f"penstock {name}", parts), "utf-8")


def _watch(engine: ps.Engine) -> RenderableType:
    """Return the table of `penstock watch` after the last score."""
    now = 0.0
    coming = scores(_BEFORE + _LIVE)
    for _ in range(_BEFORE // _BATCH):
        engine.put_many("matches", list(islice(coming, _BATCH)))
    views = _WATCHED
    board = WatchTable(views, 14, lambda: now)
    with engine.snapshot() as snap:
        for name in views:
            board.show(name, islice(snap.view(name), 7))
        steps = FeedSteps(engine, views, snap.position)
    for score in coming:
        now += _EVERY
        engine.put("matches", score)
        for changes, _ in steps.step():
            board.take(changes)
    return board.page(steps.position, _WIDTH)


def _typed(words: list[str]) -> Text:
    quoted = (f"'{word}'" if '"' in word else word for word in words)
    return Text(f"$ penstock {' '.join(quoted)}", style="bold green")


def _shown(store: Path, words: list[str]) -> list[RenderableType]:
    """Run a command on a terminal. Return its text there and its lines on standard error, without the bar."""
    around = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    own = {"PENSTOCK_APP": str(ROOT / "examples/leaderboard/app.py"), "PENSTOCK_STORE": str(store), "TERM": "xterm"}
    mine, theirs = pty.openpty()
    command = [sys.executable, "-m", "penstock", *words]
    with subprocess.Popen(
        command, cwd=ROOT, env=around | own, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE
    ) as child:
        os.close(theirs)
        seen = bytearray()
        try:
            while data := os.read(mine, 1 << 16):
                seen += data
        except OSError:  # the other end is closed
            pass
        os.close(mine)
        assert child.stderr is not None, "it was asked for"
        seen += child.stderr.read()
    if child.returncode:
        raise SystemExit(f"{' '.join(command)}: {seen.decode()}")
    return [_typed(words), Text.from_ansi(seen.decode().replace("\r\n", "\n").rstrip("\n"))]


def _drawn(title: str, parts: list[RenderableType]) -> str:
    console = Console(record=True, width=_WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for part in parts:
        console.print(part)
    drawn = console.export_svg(title=title, code_format=_PAGE, unique_id="penstock")
    return "\n".join(line.rstrip() for line in drawn.splitlines()) + "\n"


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else FOLDER)
