"""SQLite: row triggers, one synced transaction per batch.

The write-ahead log is synced by every commit. The cache holds the data. Readers of a least, a greatest and a top n have
a table that is computed from an index for each group that the batch touched.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import msgspec

from bench.peers.drivers import triggers
from bench.peers.drivers.turn import Changes, Turn, columns_of, sum_of
from bench.peers.shapes import TABLE, Case, View

_SETTINGS = (
    "pragma journal_mode = wal",
    "pragma synchronous = full",
    "pragma cache_size = -524288",
    "pragma wal_autocheckpoint = 16000",
    "pragma temp_store = memory",
)


def _of(view: View, case: Case) -> Iterator[str]:
    """Yield the triggers of a view on its source."""
    source, keys = triggers.source_of(view), triggers.parts(view)
    read = [*keys, *(total.field.replace(".", "_") for total in view.totals if total.field)]
    differs = " or ".join(f'old."{name}" is not new."{name}"' for name in dict.fromkeys([*read, *_count(view, case)]))
    for event, side, sign in (("insert", "new", 1), ("delete", "old", -1), ("update", "old", -1), ("update", "new", 1)):
        conditions = [triggers.present(view, case, f"{side}.")] if view.source else []
        conditions += [f"({differs})"] if event == "update" else []
        when = f"when {' and '.join(conditions)} " if conditions else ""
        values = [f"{side}.{key}" for key in keys]
        values += [sum_of(total, str(sign)).replace(" * ", f" * {side}.") for total in view.totals]
        yield (
            f"create trigger {view.name}_{event}_{side} after {event} on {source} {when}begin "
            f"insert into {view.name} values ({', '.join(values)}) {triggers.added(view)}; end"
        )


def _count(view: View, case: Case) -> list[str]:
    return [one.count for one in triggers.kept(case) if one.name == view.source]


def _touching(view: View) -> Iterator[str]:
    """Yield the table of the groups that a batch touched, and the triggers that fill it."""
    keys = triggers.parts(view)
    yield f"create table touched ({', '.join(keys)}, primary key ({', '.join(keys)})) without rowid"
    for event, side in (("insert", "new"), ("delete", "old"), ("update", "old"), ("update", "new")):
        values = ", ".join(f"{side}.{key}" for key in keys)
        yield (
            f"create trigger touched_{event}_{side} after {event} on {TABLE} begin "
            f"insert or ignore into touched values ({values}); end"
        )


def opened(turn: Turn) -> sqlite3.Connection:
    """Return an empty database with the tables and triggers of a case."""
    base = sqlite3.connect(turn.folder / "base.sqlite", isolation_level=None)
    for statement in (*_SETTINGS, *triggers.tables(turn.case, " without rowid")):
        base.execute(statement)
    for view in triggers.kept(turn.case):
        for statement in _of(view, turn.case):
            base.execute(statement)
    for view in triggers.chosen(turn.case):
        for statement in _touching(view):
            base.execute(statement)
    return base


def main() -> None:
    turn = Turn()
    batches = turn.batches()
    base, decode = opened(turn), msgspec.json.Decoder().decode
    changes = Changes(turn.case.columns, turn.case.whole)
    names = [name for name, _ in columns_of(turn.case)]
    sets = ", ".join(f"{name} = excluded.{name}" for name in names if name != "id")
    upsert = (
        f"insert into {TABLE} values ({', '.join('?' * len(names))}) on conflict (id) do update set {sets} "
        f"where excluded.ts > {TABLE}.ts"
    )
    refreshes = [
        statement
        for view in triggers.chosen(turn.case)
        for statement in (
            triggers.refreshed(view, "select * from touched").replace("string_agg", "group_concat"),
            "delete from touched",
        )
    ]
    turn.ready()
    for lines in batches:
        rows, gone = changes.of(lines, map(decode, lines))
        base.execute("begin")
        base.executemany(upsert, rows)
        base.executemany(f"delete from {TABLE} where id = ?", [(key,) for key in gone])
        for statement in refreshes:
            base.execute(statement)
        base.execute("commit")
    turn.done(sqlite3.sqlite_version)
    turn.write(row for view in turn.case.views for row in base.execute(triggers.reading(view, turn.case)))
    base.close()


if __name__ == "__main__":
    main()
