"""Pathway: upserts by a connector in Python, one commit per batch; or an append-only file of JSON lines.

Its state is in memory. A subscriber keeps the rows of both views.
"""

from __future__ import annotations

import importlib
from importlib.metadata import version
from typing import Any

from bench.peers.drivers.turn import Turn


class _Views:
    """The current rows of both views."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[Any, list[Any]]] = {"by_name": {}, "by_city": {}}

    def follow(self, pw: Any, table: Any, view: str, names: tuple[str, ...]) -> None:
        own = self.rows[view]

        def change(key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
            if is_addition:
                own[key] = [row[name] for name in names]
            elif own.get(key) == [row[name] for name in names]:
                del own[key]

        pw.io.subscribe(table, on_change=change)


def _schema(pw: Any, keyed: bool) -> Any:
    columns = {"id": int, "name": str, "city": str, "amount": int, "ts": int}
    return pw.schema_builder(
        {name: pw.column_definition(dtype=kind, primary_key=keyed and name == "id") for name, kind in columns.items()}
    )


def _subject(pw: Any, turn: Turn) -> Any:
    """Return the connector that sends the batches. It starts the clock when Pathway is ready."""
    msgspec: Any = importlib.import_module("msgspec")
    decode, batches = msgspec.json.Decoder().decode, turn.batches()

    class Lines(pw.io.python.ConnectorSubject):  # type: ignore[misc]
        def run(self) -> None:
            turn.ready()
            for lines in batches:
                for line in lines:
                    self.next(**decode(line))
                self.commit()

    return Lines(session_type="upsert")


def main() -> None:
    turn = Turn()
    pw: Any = importlib.import_module("pathway")
    views = _Views()
    if turn.setting == "upserts":
        users = pw.io.python.read(_subject(pw, turn), schema=_schema(pw, True), autocommit_duration_ms=None)
    else:
        users = pw.io.jsonlines.read(str(turn.input), schema=_schema(pw, False), mode="static")
    by_name = users.groupby(users.name).reduce(users.name, n=pw.reducers.count())
    by_city = users.groupby(users.city).reduce(users.city, n=pw.reducers.count(), total=pw.reducers.sum(users.amount))
    views.follow(pw, by_name, "by_name", ("name", "n"))
    views.follow(pw, by_city, "by_city", ("city", "n", "total"))
    if turn.setting != "upserts":
        turn.ready()
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    turn.done(version("pathway"))
    turn.write([view, *row] for view, rows in views.rows.items() for row in rows.values())


if __name__ == "__main__":
    main()
