"""Documents cut into requests that a server takes: each has at most 1 MiB."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from penstock.cache import PenstockError, pack_document
from penstock.engine import input_rows

__all__ = ["DocumentRequest", "document_requests"]

_BYTES = 1 << 20
_DOCUMENTS = 10_000


@dataclass(slots=True)
class DocumentRequest:
    """The documents of one request: JSON lines, or packed maps."""

    packed: bool
    parts: list[bytes] = field(default_factory=list)
    size: int = 0

    @property
    def data(self) -> bytes:
        """The bytes of the request."""
        return (b"" if self.packed else b"\n").join(self.parts)

    def has_room(self, packed: bool, size: int) -> bool:
        """Return True if another document fits."""
        return packed is self.packed and self.size + size <= _BYTES and len(self.parts) < _DOCUMENTS

    def add(self, part: bytes) -> None:
        """Add a document."""
        self.parts.append(part)
        self.size += len(part) + 1


def document_requests(docs: Any) -> Iterator[DocumentRequest]:
    """Yield requests of dicts, JSON lines, or a table of Arrow, pandas or polars. Blank lines have no request.

    >>> [(own.packed, len(own.parts)) for own in document_requests([{"id": 1}, {"id": 2}, '{"id": 3}'])]
    [(True, 2), (False, 1)]
    """
    own: DocumentRequest | None = None
    for doc in _documents(docs):
        if isinstance(doc, bytes | str):
            packed, part = False, doc.encode() if isinstance(doc, str) else doc.rstrip(b"\n")
            if not part.strip():
                continue
        else:
            packed, part = True, pack_document(doc)
        if len(part) > _BYTES:
            raise PenstockError(f"a document has {len(part):,} bytes, and a request {_BYTES:,}; put it on the server")
        if own is not None and not own.has_room(packed, len(part) + 1):
            yield own
            own = None
        if own is None:
            own = DocumentRequest(packed)
        own.add(part)
    if own is not None:
        yield own


def _documents(docs: Any) -> Iterable[Any]:
    if isinstance(docs, str):
        docs = docs.encode()
    return docs.split(b"\n") if isinstance(docs, bytes) else input_rows(docs)
