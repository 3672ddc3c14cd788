"""Put records as a client: one by one, as lists, or in batches of its own. Each call is one transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.engine import Engine
from penstock.spout import Record
from penstock.testing.simulator.fault_plan import PutMode


def calls_of(how: PutMode, records: Sequence[Record]) -> Iterator[tuple[Record, ...]]:
    """Yield the records of each call of a client."""
    if how is PutMode.EACH:
        yield from ((record,) for record in records)
    elif how is PutMode.BATCH:
        yield tuple(records)
    else:
        for table in dict.fromkeys(r.table for r in records):
            docs = tuple(r for r in records if r.table == table and is_list([r]))
            if docs:
                yield docs
        yield from ((r,) for r in records if not is_list([r]))


def is_list(records: Sequence[Record]) -> bool:
    """Return whether these records can be put as a list of documents."""
    return all(record.doc is not None and record.ts is None for record in records)


def put_by(engine: Engine, how: PutMode, records: Sequence[Record]) -> None:
    """Put these records in one call."""
    first = records[0]
    if how is PutMode.BATCH:
        with engine.batch() as batch:
            for record in records:
                if record.doc is None:
                    batch.delete(record.table, record.key, record.ts)
                else:
                    batch.put(record.table, record.doc, record.ts)
    elif first.doc is None:
        engine.delete(first.table, first.key, first.ts)
    elif how is PutMode.EACH or not is_list(records):
        engine.put(first.table, first.doc, first.ts)
    else:
        engine.put_many(first.table, [r.doc for r in records], strict=how is PutMode.STRICT)
