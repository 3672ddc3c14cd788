"""Convert messages of a Wallaroo worker: each is one document, or one line of a view of another store.

A view's line is {"view", "group", "value", "position"}, and a group that is gone has "deleted": true. Invariant: each
message is converted alone, and an invalid one is refused with its bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.cache import RecordError, normalise, pack_document, received_document
from penstock.gateway import Deletion, Form, ReceivedRecord, TableBatch
from penstock.spout.received_messages import CONVERSION_ERRORS, ConvertedRecords, document_line

__all__ = ["MessageFormat"]


@dataclass(frozen=True, slots=True)
class MessageFormat:
    """The format of messages.

    >>> line = b'{"view": "by_name", "group": "Joe", "value": 2, "position": 7}'
    >>> [stored] = MessageFormat(view_lines=True).take([line]).batch.lines
    >>> received_document(stored)
    {'key': 'Joe', 'value': 2}
    """

    view_lines: bool = False
    only: str | None = None  # the one form that is accepted: json or msgpack

    def take(self, bodies: Sequence[bytes]) -> ConvertedRecords:
        """Convert messages."""
        out = ConvertedRecords(TableBatch([]))
        batch = out.batch
        for place, body in enumerate(bodies):
            try:
                if self.only is not None and (body.lstrip()[:1] == b"{") is not (self.only == "json"):
                    raise RecordError(f"it is no document in the form {self.only}")
                line = document_line(body)
                found = line if not self.view_lines or line is None else _change(line)
                if isinstance(found, Deletion):
                    batch.deletes[batch.n] = found
                elif found is not None:
                    batch.lines.append(found)
            except CONVERSION_ERRORS as error:
                out.refused[place] = str(getattr(error, "reason", error))
                out.received[place] = ReceivedRecord.made(Form.TEXT if self.view_lines else Form.JSON, body)
                out.skips.append(place)
        return out


def _change(line: bytes) -> bytes | Deletion:
    """Return the document of a view's line, or the deletion of its group."""
    change = received_document(line)
    if "group" not in change or not (change.get("deleted") is True or "value" in change):
        raise RecordError("it is no line of a view, which has a group and a value, or is deleted")
    group = change["group"]
    if change.get("deleted") is True:
        return Deletion(normalise(tuple(group) if isinstance(group, list) else group))
    return pack_document({"key": group, "value": change["value"]})
