"""Pathway: upserts by a connector in Python, one commit per batch; or an append-only file of JSON lines.

Its state is in memory. A subscriber keeps the rows of both views.
"""

from __future__ import annotations

import importlib
from importlib.metadata import version
from threading import Event
from typing import Any

from bench.peers.drivers.turn import Turn, split

_USERS: dict[str, type] = {"id": int, "name": str, "city": str, "amount": int, "ts": int}
_ORDERS: dict[str, type] = {"key": int, "customer": int, "amount": int, "ts": int}
_CUSTOMERS: dict[str, type] = {"key": int, "country": str, "ts": int}


class _Views:
    """The current rows of both views."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[Any, list[Any]]] = {"by_name": {}, "by_city": {}, "by_country": {}}

    def follow(self, pw: Any, table: Any, view: str, names: tuple[str, ...]) -> None:
        own = self.rows[view]

        def change(key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
            if is_addition:
                own[key] = [row[name] for name in names]
            elif own.get(key) == [row[name] for name in names]:
                del own[key]

        pw.io.subscribe(table, on_change=change)


def _schema(pw: Any, columns: dict[str, type], keyed: bool) -> Any:
    return pw.schema_builder(
        {
            name: pw.column_definition(dtype=kind, primary_key=keyed and name in ("id", "key"))
            for name, kind in columns.items()
        }
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
    if turn.case.joined:
        _join(pw, turn, views)
    else:
        _group(pw, turn, views)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    turn.done(version("pathway"))
    turn.write([view, *row] for view, rows in views.rows.items() for row in rows.values())


def _join(pw: Any, turn: Turn, views: _Views) -> None:
    """Join two inputs, and sum by country. One connector sends all customers, and then the other one the orders."""
    msgspec: Any = importlib.import_module("msgspec")
    decode, started = msgspec.json.Decoder().decode, Event()
    both = [split(lines) for lines in turn.batches()]

    def keyed(document: dict[str, Any]) -> dict[str, Any]:
        """Return a document with its key under a name that Pathway does not reserve."""
        document["key"] = document.pop("id")
        return document

    class Customers(pw.io.python.ConnectorSubject):  # type: ignore[misc]
        def run(self) -> None:
            turn.ready()
            started.set()
            for lines, _ in both:
                for line in lines:
                    self.next(**keyed(decode(line)))
                self.commit()

    class Orders(pw.io.python.ConnectorSubject):  # type: ignore[misc]
        def run(self) -> None:
            started.wait()
            for _, lines in both:
                for line in lines:
                    self.next(**keyed(decode(line)))
                self.commit()

    customers, orders = (
        pw.io.python.read(subject, schema=_schema(pw, columns, True), autocommit_duration_ms=None)
        for subject, columns in (
            (Customers(session_type="upsert"), _CUSTOMERS),
            (Orders(session_type="upsert"), _ORDERS),
        )
    )
    sold = orders.join(customers, orders.customer == customers.key).select(customers.country, orders.amount)
    by_country = sold.groupby(sold.country).reduce(
        sold.country, n=pw.reducers.count(), total=pw.reducers.sum(sold.amount)
    )
    views.follow(pw, by_country, "by_country", ("country", "n", "total"))


def _group(pw: Any, turn: Turn, views: _Views) -> None:
    """Group users by name and by city."""
    if turn.setting == "upserts":
        schema = _schema(pw, _USERS, True)
        users = pw.io.python.read(_subject(pw, turn), schema=schema, autocommit_duration_ms=None)
    else:
        users = pw.io.jsonlines.read(str(turn.input), schema=_schema(pw, _USERS, False), mode="static")
    by_name = users.groupby(users.name).reduce(users.name, n=pw.reducers.count())
    by_city = users.groupby(users.city).reduce(users.city, n=pw.reducers.count(), total=pw.reducers.sum(users.amount))
    views.follow(pw, by_name, "by_name", ("name", "n"))
    views.follow(pw, by_city, "by_city", ("city", "n", "total"))
    if turn.setting != "upserts":
        turn.ready()


if __name__ == "__main__":
    main()
