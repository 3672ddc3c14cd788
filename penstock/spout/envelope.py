"""Read records that name their own table: {"topic": "users(id)", "ts": 3, "id": 7, "name": "Sue"}.

`topic` is the table, optionally with its key in parentheses. `ts` is the record's ts. All other fields are the
document. The ts stays in the document if the table reads it from that field. If the table uses the broker's timestamp,
`ts` replaces that. A ts of 0 marks a repost, and its value has no ts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from penstock.cache import RecordError
from penstock.spout.protocol import Contract, Recall, Spout, SpoutBatch
from penstock.spout.record import Record
from penstock.views import App, Table

_TOPIC = re.compile(r"([^()]*)(?:\(([^()]*)\))?")
_TS = ("ts",)


def opened(app: App, wire: Mapping[str, Any]) -> Record:
    """Return the record of an envelope. Raise RecordError if it is invalid, and UnknownName if the table does not
    exist.

    >>> app = App("shop")
    >>> users = app.table("users", key="id", ts="ts")
    >>> opened(app, {"topic": "users(id)", "ts": 3, "id": 7, "name": "Sue"}).doc
    {'ts': 3, 'id': 7, 'name': 'Sue'}
    >>> opened(app, {"topic": "users(id)", "ts": 0, "id": 7, "name": "Sam"}).repost
    True
    """
    topic = wire.get("topic")
    if not isinstance(topic, str):
        raise RecordError(
            """it names no table; write it as {"topic": "users(id)", "ts": 3, "id": 7}, where the table is users"""
        )
    matched = _TOPIC.fullmatch(topic)
    if matched is None:
        raise RecordError(f"its topic {topic!r} is no table; write it as 'users' or 'users(id)'")
    table = app.input_of(matched[1])
    key = key_text(table)
    if matched[2] is not None and matched[2].replace(" ", "") != key:
        raise RecordError(
            f"its topic {topic!r} names another key than table {table.name!r} has: write '{table.name}({key})'"
        )
    ts = wire.get("ts")
    repost = type(ts) in (int, float) and ts == 0
    left_out = {"topic"} if table.ts == _TS and not repost else {"topic", "ts"}
    doc = {name: value for name, value in wire.items() if name not in left_out}
    return Record(table.name, None, doc, ts=ts if table.broker_ts and not repost else None, repost=repost)


def key_text(table: Table) -> str:
    """Return the key of a table as a topic writes it: its paths, separated by commas.

    >>> key_text(App("shop").table("orders", key=("shop", "number")))
    'shop,number'
    """
    return ",".join(".".join(path) for path in table.key.paths)


class Enveloped:
    """A spout that marks the records of another spout as envelopes.

    >>> from penstock.spout import SPOUTS
    >>> [type(SPOUTS.open(f"file:{__file__}?format=jsonl{more}", "users")).__name__ for more in ("", "&envelope=topic")]
    ['FileSpout', 'Enveloped']
    """

    def __init__(self, spout: Spout) -> None:
        self.inner = self._spout = spout
        self.contract: Contract = spout.contract
        self.ended = spout.ended

    def begin(self, recall: Recall) -> None:
        """Continue at the store's offset."""
        self._spout.begin(recall)
        self.contract = self._spout.contract
        self.ended = self._spout.ended

    def next_batch(self, limit: int, wait: float = 0.0) -> SpoutBatch | None:
        """Return at most `limit` records."""
        batch = self._spout.next_batch(limit, wait)
        self.ended = self._spout.ended
        if batch is not None:
            batch.envelope = True
        return batch

    def lag(self) -> int | None:
        """Return the amount that is available but not returned yet."""
        return self._spout.lag()

    def committed(self, batch: SpoutBatch) -> None:
        """Accept that this batch, and all before it, are durable."""
        self._spout.committed(batch)

    def close(self) -> None:
        """Close the inner spout."""
        self._spout.close()
        self.ended = True
