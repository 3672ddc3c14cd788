"""Loading a file so that it can be killed anywhere: the place to go on from is committed with the documents."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import penstock as ps


def load(engine: ps.Engine, path: Path, size: int, stop: int | None = None) -> Iterator[int]:
    """Load the lines of a file into `orders`, from where the store stands in it to line `stop`, `size` lines a
    transaction.

    After each transaction gives the line that comes next: the lines before it are on the disk.
    """
    source = source_of(path)
    with engine.snapshot() as snap:
        place = snap.sources.get(source, 0)
    with path.open("rb") as file:
        lines = islice(file, place, stop)
        while batch := list(islice(lines, size)):
            records = [ps.Record("orders", None, line, offset=place + i) for i, line in enumerate(batch)]
            place += len(batch)
            engine.ingest(records, source=source, resume=place)
            yield place


def source_of(path: Path) -> str:
    """What a file is called in `snap.sources`."""
    return f"file:{path.name}"
