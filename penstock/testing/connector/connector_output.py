"""The output of a simulated worker: numbered messages of JSON, some of which a table refuses."""

from __future__ import annotations

import json
from typing import Any

from penstock.views import App

__all__ = ["documents_in", "message", "orders_app"]

_EACH = 5  # one of so many messages is refused, and counts there once for each time that it comes


def message(worker: str, number: int) -> bytes:
    """Return a message of a worker.

    >>> message("w1", 4), message("w1", 12)
    (b'no document: w1 4\\n', b'{"id": "w1 12", "worker": "w1", "pad": "xx"}\\n')
    """
    if number % _EACH == _EACH - 1:
        return b"no document: %s %d\n" % (worker.encode(), number)
    return json.dumps({"id": f"{worker} {number}", "worker": worker, "pad": "x" * (number % 5)}).encode() + b"\n"


def documents_in(output: bytes) -> tuple[dict[str, Any], int]:
    """Return the documents in an output by key, and the number of refused messages.

    >>> documents_in(message("w1", 0) + message("w1", 4))
    ({'w1 0': {'id': 'w1 0', 'worker': 'w1', 'pad': ''}}, 1)
    """
    lines = output.splitlines()
    documents = [json.loads(line) for line in lines if line.startswith(b"{")]
    return {doc["id"]: doc for doc in documents}, len(lines) - len(documents)


def orders_app() -> App:
    """Return the app of a store that receives messages."""
    app = App("shop")
    orders = app.table("orders", key="id")
    orders.view("by_worker", key="worker", reduce=None)
    return app
