"""Damage done to a store behind the engine's back: to rows and nodes as bytes, and to what views count as such.

What is done here is what disks, faults of the engine and hands do: a bit is turned, a row lost, put under another key
or exchanged for another one, whole by its checksum; a contribution is lost, added or changed with everything that
follows from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np

from penstock.cache import encode_key, index_db, pack, seal, stored_key, unpack, unseal
from penstock.mapreduce import (
    Column,
    Contributions,
    Emissions,
    Groups,
    SourceKeys,
    ViewNode,
    emissions_db,
    emissions_row,
    node_log_db,
    nodes_db,
)
from penstock.recovery.repair.emission_repair import remembered_in
from penstock.views import TS

Rows = dict[str, dict[bytes, bytes]]


def content_of(engine: Any) -> Rows:
    """All rows of all databases of a store in memory."""
    databases = engine.store.core.store.databases
    return {name: dict(database.rows) for name, database in databases.items() if database.rows}


def content_dbs(engine: Any) -> list[str]:
    """The databases of rows and nodes of views."""
    found: list[str] = []
    for view in engine.store.core.views.values():
        found += [view.reduce.db, nodes_db(view.number), node_log_db(view.number)]
    return found


def turn_a_bit(key: bytes, rows: dict[bytes, bytes], choose: Random) -> dict[bytes, bytes | None]:
    """One bit of a row."""
    row = bytearray(rows[key])
    at = choose.randrange(8 * len(row))
    row[at // 8] ^= 1 << at % 8
    return {key: bytes(row)}


def lose(key: bytes, rows: dict[bytes, bytes], choose: Random) -> dict[bytes, bytes | None]:
    """A row."""
    return {key: None}


def exchange(key: bytes, rows: dict[bytes, bytes], choose: Random) -> dict[bytes, bytes | None]:
    """What two rows hold, each under a right checksum."""
    other = choose.choice(sorted(rows))
    payloads = unseal(key, rows[key], ""), unseal(other, rows[other], "")
    return {key: seal(key, payloads[1]), other: seal(other, payloads[0])}


def put_twice(key: bytes, rows: dict[bytes, bytes], choose: Random) -> dict[bytes, bytes | None]:
    """A row under another key, with a right checksum or the old one."""
    other = bytes([*key[:-1], key[-1] ^ 1])
    whole = choose.random() < 0.7
    return {other: seal(other, unseal(key, rows[key], "")) if whole else rows[key]}


BYTES: tuple[Callable[..., dict[bytes, bytes | None]], ...] = (turn_a_bit, lose, exchange, put_twice)


def damage_bytes(engine: Any, choose: Random) -> str | None:
    """Damage some row or node of some view; says what, or None where there is nothing."""
    found = content_of(engine)
    dbs = [db for db in content_dbs(engine) if found.get(db)]
    if not dbs:
        return None
    nodes = [db for db in dbs if not db.startswith("view:")]
    db = choose.choice(nodes if nodes and choose.random() < 0.4 else dbs)
    rows = found[db]
    key, how = choose.choice(sorted(rows)), choose.choice(BYTES)
    overwrite(engine, db, how(key, rows, choose))
    return f"{how.__name__}: {db}, {key!r}"


def damage_remembered(engine: Any, choose: Random) -> str | None:
    """Turn a bit of what a view remembers, or of an index; says of what, or None where there is nothing."""
    found, dbs = content_of(engine), [db for view in engine.store.core.views.values() for db in remembered_in(view)]
    dbs += [index_db(node.number) for node in engine.store.core.tables.values()]
    dbs = [db for db in dbs if found.get(db)]
    if not dbs:
        return None
    db = choose.choice(dbs)
    key = choose.choice(sorted(found[db]))
    overwrite(engine, db, turn_a_bit(key, found[db], choose))
    return f"a bit of {db}, {key!r}"


def overwrite(engine: Any, db: str, rows: dict[bytes, bytes | None]) -> None:
    """Put rows, and delete those that are None."""
    with engine.store.core.store.write() as writer:
        writer.put_many(db, [(key, row) for key, row in rows.items() if row is not None])
        writer.delete_many(db, [key for key, row in rows.items() if row is None])


def tell(engine: Any, view: str, plus: Sequence[tuple[Any, Any, Any]], minus: Sequence[tuple[Any, Any, Any]]) -> None:
    """Have a view count contributions that no document makes, as (key, group, value), or not count some.

    The views on it are told as well. Of a field view without a value of its own, the value is a map of what is read.
    """
    node: ViewNode = engine.store.core.views[view]

    def change(reader: Any, writes: Any) -> None:
        node.advance(reader, _side(node, plus), _side(node, minus), writes)

    engine.store.core.amend(change)


def _side(node: ViewNode, told: Sequence[tuple[Any, Any, Any]]) -> Contributions:
    codes = np.array([node.groups.code(group) for _, group, _ in told], np.int32)
    values = [value for _, _, value in told]
    inputs = Emissions(None, codes, Column.of(values)).inputs(node.reduce.fields)
    if node.stamped:
        inputs[TS] = Column(np.ones(len(told), np.int64))
    return Contributions(codes, inputs).of(SourceKeys.of([key for key, _, _ in told]), np.arange(len(told)))


def add_to_lane(engine: Any, view: str, group: Any, lane: int = 0, by: int = 1) -> None:
    """An accumulator is off by some; lane 0 is how many contributions there are."""
    reduce = engine.store.core.views[view].reduce
    key = stored_key(encode_key(group))
    with engine.store.core.store.write() as writer:
        [row] = writer.get_many(reduce.db, [key])
        state = reduce.codec.decode(key, row, "")
        if lane:
            state.lanes[lane - 1] += by
        else:
            state.n += by
        if state.items is None and state.spills is None and state.whole is None:
            writer.put_many(reduce.db, [reduce.codec.fixed_row(key, state.n, state.lanes)])
        else:
            writer.put_many(reduce.db, [(key, reduce.codec.sealed(key, state))])


def yield_otherwise(engine: Any, view: str, change: Callable[[list[Any]], list[Any]]) -> None:
    """What a function view remembers of its documents: each row of emissions, as a list of documents' pairs."""
    node = engine.store.core.views[view]
    db = emissions_db(node.number)
    with engine.store.core.store.write() as writer:
        for key, row in list(writer.scan(db)):
            groups = Groups()
            told = node.remembered(writer, groups).emissions_in(key, row)
            pairs = change([told.pairs(i, groups) for i in range(told.documents)])
            writer.put_many(db, [(key, emissions_row(key, Emissions.of_pairs(pairs, groups), groups))])


def change_payload(engine: Any, db: str, key: bytes, change: Callable[[Any], Any]) -> None:
    """Another content of a row, under a right checksum."""
    with engine.store.core.store.write() as writer:
        [row] = writer.get_many(db, [key])
        writer.put_many(db, [(key, seal(key, pack(change(unpack(unseal(key, row, db))))))])
