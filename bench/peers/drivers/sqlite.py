"""SQLite: row triggers, one synced transaction per batch.

The write-ahead log is synced by every commit. The cache holds the data. Readers of a least, a greatest and a top n have
a table. It is computed from an index for each group that the batch touched.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import msgspec

from bench.peers.drivers import triggers
from bench.peers.drivers.scenarios import main
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
            f"insert into touched values ({values}) on conflict do nothing; end"
        )


class Sqlite:
    """An open database. The thread of a reader has a connection of its own."""

    def __init__(self, turn: Turn, exists: bool) -> None:
        self.version = sqlite3.sqlite_version
        self._case, self._path = turn.case, turn.folder / "base.sqlite"
        self._base = self._connection()
        if not exists:
            for statement in self._definitions(turn.case):
                self._base.execute(statement)
        names = [name for name, _ in columns_of(turn.case)]
        sets = ", ".join(f"{name} = excluded.{name}" for name in names if name != "id")
        self._upsert = (
            f"insert into {TABLE} values ({', '.join('?' * len(names))}) on conflict (id) do update set {sets} "
            f"where excluded.ts > {TABLE}.ts"
        )
        self._refreshes = [
            statement
            for view in triggers.chosen(turn.case)
            for statement in (
                triggers.refreshed(view, "select * from touched").replace("string_agg", "group_concat"),
                "delete from touched",
            )
        ]
        self._decode = msgspec.json.Decoder().decode
        self._changes = Changes(turn.case.columns, turn.case.whole)

    def _connection(self) -> sqlite3.Connection:
        base = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        for statement in _SETTINGS:
            base.execute(statement)
        return base

    def _definitions(self, case: Case) -> Iterator[str]:
        yield from triggers.tables(case, " without rowid")
        for view in triggers.kept(case):
            yield from _of(view, case)
        for view in triggers.chosen(case):
            yield from _touching(view)

    def write(self, lines: list[bytes]) -> None:
        rows, gone = self._changes.of(lines, map(self._decode, lines))
        self._base.execute("begin")
        self._base.executemany(self._upsert, rows)
        self._base.executemany(f"delete from {TABLE} where id = ?", [(key,) for key in gone])
        for statement in self._refreshes:
            self._base.execute(statement)
        self._base.execute("commit")

    def reader(self) -> Callable[[str], Any]:
        base = self._connection()
        return lambda city: base.execute("select * from by_city where city = ?", [city]).fetchone()

    def add(self, view: View) -> Callable[[], bool]:
        """Fill the table of the view and make its triggers, in one transaction that keeps writers out."""
        self._case = replace(self._case, views=(*self._case.views, view))
        self._base.execute("begin")
        self._base.execute(triggers.table(view, self._case, " without rowid"))
        self._base.execute(triggers.filled(view))
        for statement in _of(view, self._case):
            self._base.execute(statement)
        self._base.execute("commit")
        return lambda: True

    def rows(self) -> Iterator[Any]:
        for view in self._case.views:
            yield from self._connection().execute(triggers.reading(view, self._case))

    def close(self) -> None:
        self._base.close()


if __name__ == "__main__":
    main(Sqlite)
