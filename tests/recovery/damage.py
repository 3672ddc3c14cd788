"""Damage to a store behind the engine's back: to the bytes of rows and nodes, and to the contributions of views.

It imitates faulty disks, faults of the engine and manual changes. A bit flips, a row is lost, a row is stored under
another key, or two rows are exchanged. These rows may have right checksums. A contribution is lost, added or changed,
together with everything that follows from it.
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
    """Return all rows of all databases of a store in memory."""
    databases = engine.store.core.store.databases
    return {name: dict(database.rows) for name, database in databases.items() if database.rows}


def content_dbs(engine: Any) -> list[str]:
    """Return the databases with the rows and nodes of views."""
    found: list[str] = []
    for view in engine.store.core.views.values():
        found += [view.reduce.db, nodes_db(view.number), node_log_db(view.number)]
    return found


def turn_a_bit(key: bytes, rows: dict[bytes, bytes], choose: Random) -> dict[bytes, bytes | None]:
    """Flip one bit of a row."""
    row = bytearray(rows[key])
    at = choose.randrange(8 * len(row))
    row[at // 8] ^= 1 << at % 8
    return {key: bytes(row)}


def lose(key: bytes, rows: dict[bytes, bytes], choose: Random) -> dict[bytes, bytes | None]:
    """Delete a row."""
    return {key: None}


def exchange(key: bytes, rows: dict[bytes, bytes], choose: Random) -> dict[bytes, bytes | None]:
    """Exchange the contents of two rows, each under a right checksum."""
    other = choose.choice(sorted(rows))
    payloads = unseal(key, rows[key], ""), unseal(other, rows[other], "")
    return {key: seal(key, payloads[1]), other: seal(other, payloads[0])}


def put_twice(key: bytes, rows: dict[bytes, bytes], choose: Random) -> dict[bytes, bytes | None]:
    """Store a row under another key as well, with a right checksum or the old one."""
    other = bytes([*key[:-1], key[-1] ^ 1])
    whole = choose.random() < 0.7
    return {other: seal(other, unseal(key, rows[key], "")) if whole else rows[key]}


BYTES: tuple[Callable[..., dict[bytes, bytes | None]], ...] = (turn_a_bit, lose, exchange, put_twice)


def damage_bytes(engine: Any, choose: Random) -> str | None:
    """Damage a random row or node of a view. Return a description, or None if there are no rows."""
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
    """Flip a bit in a remembered emission or an index. Return a description, or None if there are no rows."""
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
    """Write the rows, and delete the rows that are None."""
    with engine.store.core.store.write() as writer:
        writer.put_many(db, [(key, row) for key, row in rows.items() if row is not None])
        writer.delete_many(db, [key for key, row in rows.items() if row is None])


def tell(engine: Any, view: str, plus: Sequence[tuple[Any, Any, Any]], minus: Sequence[tuple[Any, Any, Any]]) -> None:
    """Add contributions to a view without a document behind them, and remove others. Each is (key, group, value).

    The views on it get the changes as well. If a field view defines no value, pass a map of the fields that it reads.
    """
    node: ViewNode = engine.store.core.views[view]

    def change(reader: Any, writes: Any) -> None:
        node.advance(reader, _side(node, plus), _side(node, minus), writes)

    engine.store.core.amend(change)


def _side(node: ViewNode, emissions: Sequence[tuple[Any, Any, Any]]) -> Contributions:
    codes = np.array([node.groups.code(group) for _, group, _ in emissions], np.int32)
    values = [value for _, _, value in emissions]
    inputs = Emissions(None, codes, Column.of(values)).inputs(node.reduce.fields)
    if node.stamped:
        inputs[TS] = Column(np.ones(len(emissions), np.int64))
    return Contributions(codes, inputs).of(SourceKeys.of([key for key, _, _ in emissions]), np.arange(len(emissions)))


def add_to_lane(engine: Any, view: str, group: Any, lane: int = 0, by: int = 1) -> None:
    """Add a number to one lane of an accumulator. Lane 0 is the count of contributions."""
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
            writer.put_many(reduce.db, [reduce.codec.fixed_row(key, [state.n, *state.lanes])])
        else:
            writer.put_many(reduce.db, [(key, reduce.codec.sealed(key, state))])


def yield_otherwise(engine: Any, view: str, change: Callable[[list[Any]], list[Any]]) -> None:
    """Change the remembered emissions of a function view. `change` gets the pairs of each document, for each row."""
    node = engine.store.core.views[view]
    db = emissions_db(node.number)
    with engine.store.core.store.write() as writer:
        for key, row in list(writer.scan(db)):
            groups = Groups()
            emissions = node.remembered(writer, groups).emissions_in(key, row)
            pairs = change([emissions.pairs(i, groups) for i in range(emissions.documents)])
            writer.put_many(db, [(key, emissions_row(key, Emissions.of_pairs(pairs, groups), groups))])


def change_payload(engine: Any, db: str, key: bytes, change: Callable[[Any], Any]) -> None:
    """Replace the content of a row, under a right checksum."""
    with engine.store.core.store.write() as writer:
        [row] = writer.get_many(db, [key])
        writer.put_many(db, [(key, seal(key, pack(change(unpack(unseal(key, row, db))))))])
