"""The process that the demo kills: it loads orders, and prints each line number that is durable.

It continues when it reads a line of input. The reader sends a few lines ahead, so the writer stays at most that far
ahead of it, at any reading speed.

python -m examples.demo.writer STORE FILE SIZE
"""

import sys
from pathlib import Path

import penstock as ps
from examples.demo.loading import load
from examples.demo.shop import app


def main(store: str, file: str, size: str) -> None:
    """Load the file to its end."""
    with ps.open(app, store) as engine:
        for place in load(engine, Path(file), int(size)):
            print(place, flush=True)
            sys.stdin.readline()


if __name__ == "__main__":
    main(*sys.argv[1:])
