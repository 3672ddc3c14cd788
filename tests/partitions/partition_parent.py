"""The process that opens a store of several partitions, continues after its last batch, and prints acknowledgements.

python -m tests.partitions.partition_parent PATH PARTITIONS PATIENCE [BATCHES]
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

from penstock.cache import Limits
from penstock.engine import Engine, Settings
from penstock.engine.partitioned_opening import open_partitions
from tests.partitions.partition_app import SOURCE, app, batch, mark

_MEMORY = 64 << 20


def opened(path: Path, partitions: int, patience: float) -> Engine:
    """Open the store; its processes may be silent for `patience` seconds."""
    return open_partitions(app, str(path), partitions, True, Settings(_MEMORY, Limits()), patience=patience)


def main(path: str, partitions: str, patience: str, batches: str = "") -> None:
    """Put the requested number of batches, or put batches until a kill."""
    with opened(Path(path), int(partitions), float(patience)) as engine:
        found = engine.remembered(SOURCE)
        first = 0 if found is None else found.offset
        print("open", flush=True)
        for number in itertools.islice(itertools.count(first), int(batches) if batches else None):
            engine.ingest(batch(number), SOURCE, number + 1)
            mark(engine, number)
            print(number + 1, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
