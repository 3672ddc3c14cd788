"""Load a file so that a kill at any moment does no harm: the offset is committed with the documents."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import penstock as ps


def load(engine: ps.Engine, path: Path, size: int, stop: int | None = None) -> Iterator[int]:
    """Load the lines of a file into `orders`, from the store's offset to line `stop`, `size` lines per transaction.

    After each transaction, yield the number of the next line. All lines before it are on disk.
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
    """Return the name of a file in `snap.sources`."""
    return f"file:{path.name}"
