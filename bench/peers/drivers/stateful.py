"""Bytewax: one step with the last document of each key, and one with the sums of each group.

Deltas are summed by group within a batch, between the two steps. With recovery the state goes to SQLite files, once per
second.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.peers.drivers.turn import Turn

Delta = tuple[str, tuple[int, int]]


def _source(batches: list[list[bytes]]) -> Any:
    """Return a source that emits one batch at a time, with its number as resume state."""
    inputs: Any = importlib.import_module("bytewax.inputs")

    class Partition(inputs.StatefulSourcePartition):  # type: ignore[misc]
        def __init__(self, at: int) -> None:
            self._at = at

        def next_batch(self) -> list[bytes]:
            if self._at == len(batches):
                raise StopIteration
            self._at += 1
            return batches[self._at - 1]

        def snapshot(self) -> int:
            return self._at

    class Source(inputs.FixedPartitionedSource):  # type: ignore[misc]
        def list_parts(self) -> list[str]:
            return ["lines"]

        def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> Any:
            return Partition(resume_state or 0)

    return Source()


def _sink(rows: dict[str, tuple[int, int]]) -> Any:
    outputs: Any = importlib.import_module("bytewax.outputs")

    class Partition(outputs.StatelessSinkPartition):  # type: ignore[misc]
        def write_batch(self, items: list[tuple[str, tuple[int, int]]]) -> None:
            rows.update(items)

    class Sink(outputs.DynamicSink):  # type: ignore[misc]
        def build(self, step_id: str, worker_index: int, worker_count: int) -> Any:
            return Partition()

    return Sink()


def _replace(last: Any, doc: Any) -> tuple[Any, list[Any]]:
    """Return the document as state of its key, with both versions."""
    if last is not None and last["ts"] >= doc["ts"]:
        return last, []
    return doc, [(last, doc)]


def _deltas(items: list[tuple[str, tuple[Any, Any]]]) -> Iterator[Delta]:
    """Yield the sums of the changes of a batch, by group."""
    counts, sums = Counter[str](), Counter[str]()
    for _, versions in items:
        for doc, sign in zip(versions, (-1, 1), strict=True):
            if doc is not None and "deleted" not in doc:
                name, city = f"by_name\t{doc['name']}", f"by_city\t{doc['city']}"
                counts[name] += sign
                counts[city] += sign
                sums[city] += sign * doc["amount"]
    for group, n in counts.items():
        if n or sums[group]:
            yield group, (n, sums[group])


def _sum(state: tuple[int, int] | None, delta: tuple[int, int]) -> tuple[tuple[int, int], list[tuple[int, int]]]:
    n, total = state or (0, 0)
    both = n + delta[0], total + delta[1]
    return both, [both]


def _flow(batches: list[list[bytes]], rows: dict[str, tuple[int, int]]) -> Any:
    op: Any = importlib.import_module("bytewax.operators")
    dataflow: Any = importlib.import_module("bytewax.dataflow")
    msgspec: Any = importlib.import_module("msgspec")
    decode = msgspec.json.Decoder().decode
    flow = dataflow.Dataflow("peers")
    lines = op.input("lines", flow, _source(batches))
    docs = op.flat_map_batch("docs", lines, lambda own: [(str(doc["id"]), doc) for doc in map(decode, own)])
    versions = op.stateful_flat_map("versions", docs, _replace)
    deltas = op.flat_map_batch("deltas", versions, _deltas)
    op.output("rows", op.stateful_flat_map("sums", deltas, _sum), _sink(rows))
    return flow


def main() -> None:
    turn = Turn()
    testing: Any = importlib.import_module("bytewax.testing")
    recovery: Any = importlib.import_module("bytewax.recovery")
    rows: dict[str, tuple[int, int]] = {}
    flow, kept, every = _flow(turn.batches(), rows), None, timedelta(seconds=10)
    if turn.setting == "recovery":
        folder = Path(turn.folder, "recovery")
        folder.mkdir()
        recovery.init_db_dir(folder, 1)
        kept, every = recovery.RecoveryConfig(folder), timedelta(seconds=1)
    turn.ready()
    testing.run_main(flow, epoch_interval=every, recovery_config=kept)
    turn.done(version("bytewax"))
    turn.write(
        [*group.split("\t"), n, *([total] if group.startswith("by_city") else [])]
        for group, (n, total) in rows.items()
        if n
    )


if __name__ == "__main__":
    main()
