"""A Python data source over spouts: the records of a batch, routed to the partitions that own their keys.

The driver reads ahead with the spouts to find the end of the next batch, and cuts it into offset ranges. A task reads
each range again, and splits it by owner. Invariants:

- an offset range is read from its first offset and the spout state there, so each execution reads the same records;
- each range gives one row for every partition and table, also without records: all partitions store all offsets.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows

from penstock.cache import DefinitionError, PenstockError, pack
from penstock.core import Batch, delivered
from penstock.remote import batch_data
from penstock.spark.streaming.stream_plan import StreamPlan, router_of, settled_heap
from penstock.spout import SPOUTS, FileSpout, ParquetSpout, Remembered, Spout, SpoutBatch

__all__ = ["ROUTED", "SpoutSource", "opened_spout"]

ROUTED = "receiver int, place string, first bigint, resume bigint, note binary, kinds string, table string, blob binary"
"""The columns of routed records. `place` orders the ranges of a batch: the source partition, then the range."""
_LEAST = 2_000  # records in an offset range, unless a batch has fewer
_Position = tuple[int, str]  # an offset, and the spout state there in hexadecimal digits


@dataclass(frozen=True, slots=True)
class _Range(InputPartition):
    """The records of a source partition between two offsets."""

    table: str
    source: str
    number: int
    first: _Position
    last: _Position
    count: int


def opened_spout(table: str, uri: str) -> Spout:
    """Open the spout of a table. Raise DefinitionError for one whose records can't be read again."""
    spout = SPOUTS.open(uri, table)
    if not isinstance(spout, FileSpout | ParquetSpout):
        spout.close()
        raise DefinitionError(
            f"--from {table}={uri}: a stream on Spark reads files of one table; run it without --on spark"
        )
    if not spout.contract.exact:
        spout.close()
        raise DefinitionError(f"--from {table}={uri}: {spout.contract.says}; a stream on Spark reads records again")
    return spout


class SpoutSource(DataSource):
    """The data source of a stream. A subclass has its plan, its URIs by table, and its limits."""

    plan: StreamPlan
    sources: Mapping[str, str]
    limit: int
    tasks: int

    @classmethod
    def name(cls) -> str:
        return "penstock-records"

    def schema(self) -> str:
        return ROUTED

    def streamReader(self, schema: Any) -> SpoutReader:
        return SpoutReader(self.plan, dict(self.sources), self.limit, self.tasks)


class SpoutReader(DataSourceStreamReader):
    """Finds the end of each batch, and reads its ranges.

    An offset of Spark is {table: {source partition: {"at": offset, "note": spout state, "cuts": ranges before it}}}.
    """

    def __init__(self, plan: StreamPlan, sources: dict[str, str], limit: int, tasks: int) -> None:
        self._plan = plan
        self._sources = sources
        self._limit = limit
        self._tasks = tasks

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._limit)

    def initialOffset(self) -> dict[str, Any]:
        return {table: {} for table in self._sources}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit | None = None) -> dict[str, Any]:
        # A batch has a changelog and blobs in memory, so it has a limit in any case.
        return {table: self._ahead(table, start.get(table, {}), self._limit) for table in self._sources}

    def _ahead(self, table: str, start: dict[str, Any], most: int) -> dict[str, Any]:
        """Read ahead, and return the offsets after the next batch of a table, with the cuts of each."""
        found = dict(start)  # a source partition without records keeps its offset as it is, or Spark sees a batch
        cuts: dict[str, list[tuple[int, str, int]]] = {}
        piece = max(_LEAST, -(-most // self._tasks))
        for batch in self._batches(table, start, most, piece):
            source, note = _named(batch), batch.note.hex()
            if batch.again and source in start:
                raise PenstockError(
                    f"{source} is another file than the one that was read before; give the next file its own name"
                )
            if batch.resume > (found[source]["at"] if source in found else batch.start):
                cuts.setdefault(source, []).append((batch.resume, note, _records(batch)))
                found[source] = {"at": batch.resume, "note": note, "cuts": json.dumps(cuts[source])}
        return found

    def _batches(self, table: str, start: dict[str, Any], most: int, piece: int) -> Iterator[SpoutBatch]:
        spout = opened_spout(table, self._sources[table])
        try:
            spout.begin(lambda source: _remembered(start.get(source)))
            left = most
            while left > 0 and (batch := spout.next_batch(min(left, piece))) is not None:
                left -= _records(batch)
                yield batch
        finally:
            spout.close()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        out: list[InputPartition] = []
        for table, sources in end.items():
            for source, own in sources.items():
                before = start.get(table, {}).get(source, {"at": 0, "note": ""})
                if own == before:
                    continue
                at = before["at"], before["note"]
                for resume, note, count in json.loads(own["cuts"]):
                    out.append(_Range(table, source, len(out), at, (resume, note), count))
                    at = resume, note
        return out

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, _Range), "made by partitions()"
        settled_heap()
        yield from _routed(self._plan, partition, self._read(partition))

    def _read(self, wanted: _Range) -> list[SpoutBatch]:
        """Read a range again, from its first offset to its last."""
        spout = opened_spout(wanted.table, self._sources[wanted.table])
        out: list[SpoutBatch] = []
        try:
            known = Remembered(wanted.first[0], bytes.fromhex(wanted.first[1])) if any(wanted.first) else None
            spout.begin(lambda source: known if source == wanted.source else None)
            left = wanted.count
            while left > 0 and (batch := spout.next_batch(left)) is not None:
                if _named(batch) == wanted.source:
                    left -= _records(batch)
                    out.append(batch)
        finally:
            spout.close()
        if not out or out[-1].resume != wanted.last[0]:
            end = out[-1].resume if out else wanted.first[0]
            raise PenstockError(
                f"{wanted.source} ended at {end} when it was read again, and had records up to {wanted.last[0]}; "
                "put the file back as it was"
            )
        return out


def _named(batch: SpoutBatch) -> str:
    assert batch.source is not None, "an exact spout names its source partition"
    return batch.source


def _records(batch: SpoutBatch) -> int:
    """Return the number of records of a batch, with refused and blank ones."""
    return batch.records.n + len(batch.skips)


def _remembered(own: dict[str, Any] | None) -> Remembered | None:
    return None if own is None else Remembered(own["at"], bytes.fromhex(own["note"]))


def _routed(plan: StreamPlan, wanted: _Range, batches: Sequence[SpoutBatch]) -> Iterator[Any]:
    """Yield the records of a range by owner, as one Arrow batch."""
    import pyarrow as pa

    router = router_of(plan)
    table = plan.app.app().table_of(wanted.table)
    parts: dict[int, list[Batch]] = {}
    for batch in batches:
        for owner, own in router.parted(wanted.table, delivered(batch, table)).items():
            parts.setdefault(owner, []).append(own)
    rows = range(plan.partitions)
    same = len(rows)
    columns = {
        "receiver": pa.array(rows, pa.int32()),
        "place": pa.array([f"{wanted.source}\0{wanted.number:08}"] * same, pa.string()),
        "first": pa.array([wanted.first[0]] * same, pa.int64()),
        "resume": pa.array([wanted.last[0]] * same, pa.int64()),
        "note": pa.array([bytes.fromhex(wanted.last[1])] * same, pa.binary()),
        "kinds": pa.array([json.dumps(router.kinds)] * same, pa.string()),
        "table": pa.array([wanted.table] * same, pa.string()),
        "blob": pa.array([pack(list(map(batch_data, parts.get(i, ())))) for i in rows], pa.binary()),
    }
    yield pa.RecordBatch.from_pydict(columns)
