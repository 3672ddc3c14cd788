"""Print the cost of each stage in µs per document, by batch size, on the standard workload.

The output is a table for docs/performance.md.

    python -m bench.stages

Stages are the engine's own functions, timed from outside. Calls of other stages are subtracted, so that the column sums
to the time of the call. Timers cost about 0.3 µs each, which is visible only for batches of one document.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import penstock as ps
from bench import limits
from bench.workload import TABLE, Workload, app, cut
from penstock.cache.lmdb.lmdb_transaction import LmdbWriter
from penstock.cache.log.document_log import DocumentLog
from penstock.core import feed_log
from penstock.core.commit import Core
from penstock.gateway import table_node
from penstock.gateway.small_batch import FewForm
from penstock.gateway.small_batch_deltas import FewTelling
from penstock.gateway.table_node import TableNode
from penstock.gateway.view_deltas import ViewDeltas
from penstock.mapreduce import Decoder, ReduceNode, Writes
from penstock.mapreduce.fold.small_fold import SmallFoldChanges

KEYS, SIZES = 200_000, ((50_000, 1_000_000), (10_000, 1_000_000), (1_000, 300_000), (1, 2_000))
STAGES: tuple[tuple[Any, str, str], ...] = (
    (Decoder, "columns", "decode"),
    (FewForm, "_take_in", "decode"),
    (DocumentLog, "resolve", "key → slot"),
    (DocumentLog, "resolve_few", "key → slot"),
    (table_node, "decide", "who wins"),
    (FewForm, "_decide", "who wins"),
    (TableNode, "process", "the rest of taking in"),
    (ViewDeltas, "tell", "contributions of views"),
    (FewTelling, "tell", "contributions of views"),
    (ReduceNode, "fold", "sums by group"),
    (ReduceNode, "folded_small", "sums by group"),
    (ReduceNode, "rows", "view rows, their CRCs"),
    (SmallFoldChanges, "rows", "view rows, their CRCs"),
    (feed_log.FeedLog, "put", "feed of changes"),
    (DocumentLog, "append", "segment"),
    (DocumentLog, "append_few", "segment"),
    (LmdbWriter, "put_many", "LMDB puts"),
    (LmdbWriter, "_commit_now", "commit and sync"),
    (Writes, "committed", "memory follows"),
    (Core, "_tend", "fold and compact"),
    (ps.Engine, "put_many", "the call itself"),
)


class Stages:
    """The seconds by stage, each without the stages that it calls."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._inner: list[float] = [0.0]

    def time(self, owner: Any, name: str, stage: str) -> None:
        """Time a function of a class or module as (part of) a stage."""
        call: Callable[..., Any] = getattr(owner, name)

        def timed(*args: Any, **named: Any) -> Any:
            self._inner.append(0.0)
            began = time.perf_counter()
            try:
                return call(*args, **named)
            finally:
                took = time.perf_counter() - began
                self.seconds[stage] = self.seconds.get(stage, 0.0) + took - self._inner.pop()
                self._inner[-1] += took

        setattr(owner, name, timed)


def measure(stages: Stages, root: Path, size: int, docs: int) -> dict[str, float]:
    """Return µs per document of upserts to a filled store, by stage, and of decode-only and an append of the bytes."""
    work = Workload(KEYS)
    with ps.open(app(), root / "store") as engine:
        for part in cut(work.upserts(KEYS), 50_000):
            engine.put_many(TABLE, part)
        lines = work.upserts(docs)
        before = limits.decode_only(lines)
        stages.seconds.clear()
        for part in cut(lines, size):
            engine.put_many(TABLE, part, batch=size)
        out = {stage: 1e6 * seconds / docs for stage, seconds in stages.seconds.items()}
        decode = (before + limits.decode_only(lines)) / 2
    shutil.rmtree(root / "store")
    out["sum"] = sum(out.values())
    out["decode-only"] = 1e6 * decode / docs
    out["append + fdatasync"] = 1e6 * limits.append(cut(lines, size), root) / docs
    return out


def main() -> int:
    """Print the table."""
    stages = Stages()
    for owner, name, stage in STAGES:
        stages.time(owner, name, stage)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-", dir=".") as folder:
        columns = [measure(stages, Path(folder), size, docs) for size, docs in SIZES]
    print("| stage, µs a document | " + " | ".join(f"{size:,}" for size, _ in SIZES) + " |")
    print("|---|" + "---|" * len(SIZES))
    for name in [*dict.fromkeys(stage for *_, stage in STAGES), "sum", "decode-only", "append + fdatasync"]:
        cells = [
            f"{column.get(name, 0.0):.1f}" if size == 1 else f"{column.get(name, 0.0):.3f}"
            for column, (size, _) in zip(columns, SIZES, strict=True)
        ]
        print(f"| {name} | " + " | ".join(cells) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
