"""Read the documents of a copy in blocks, in their stored form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.cache import Reader, Segment, segments_from, unpack_document
from penstock.gateway import document_of, is_wrapped, key_value, unwrap
from penstock.recovery import moment_in
from penstock.spark.verify_job.spans import Span
from penstock.views import Table

__all__ = ["DocumentBlock", "document_blocks", "span_segments"]

_LINES = 1 << 12  # documents per block


def span_segments(reader: Reader, table: int, span: Span) -> Iterator[Segment]:
    """Yield the segments of a table's log that begin in a span."""
    stop = None if span.stop is None else int.from_bytes(span.stop, "big")
    for segment in segments_from(reader, table, int.from_bytes(span.start or b"\0", "big")):
        if stop is not None and segment.base >= stop:
            return
        yield segment


def document_blocks(table: Table, log: Any, segment: Segment, stamped: bool) -> Iterator[DocumentBlock]:
    """Yield the current documents of a segment."""
    at = np.arange(len(segment))
    at = at[log.newest(segment.k0, segment.k1, segment.base + at)]
    for first in range(0, at.size, _LINES):
        yield DocumentBlock.of(table, segment, at[first : first + _LINES], stamped)


@dataclass(slots=True)
class DocumentBlock:
    """Some documents of a segment: their lines, their places in it, and the decoded documents."""

    table: Table
    at: list[int]
    lines: list[bytes]
    docs: list[dict[str, Any]]
    stamped: bool

    @classmethod
    def of(cls, table: Table, segment: Segment, at: NDArray[np.int64], stamped: bool) -> DocumentBlock:
        """Return the documents among the lines at these places."""
        lines, places = segment.lines(at), at.tolist()
        if any(map(is_wrapped, lines)):
            present = [i for i, line in enumerate(lines) if not unwrap(line).absent]
            lines, places = [lines[i] for i in present], [places[i] for i in present]
        return cls(table, places, lines, _documents(lines), stamped)

    def anew(self) -> list[dict[str, Any]]:
        """Return fresh copies of the documents, which a function may change."""
        return _documents(self.lines)

    def key(self, i: int) -> Any:
        """Return the key of a document."""
        return key_value(self.table, self.docs[i])

    def moment(self, i: int) -> Any:
        """Return the ts of a document, if a view needs it."""
        return moment_in(self.table, unwrap(self.lines[i]), self.docs[i]) if self.stamped else None


def _documents(lines: Sequence[bytes]) -> list[dict[str, Any]]:
    return list(map(document_of if any(map(is_wrapped, lines)) else unpack_document, lines))
