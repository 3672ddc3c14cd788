"""Errors of the connector protocol. Each names the reason."""

from __future__ import annotations

from penstock.cache import PenstockError

__all__ = ["ProtocolFault"]


class ProtocolFault(PenstockError):
    """Bytes or a frame break the connector protocol. The session that raises it ends; others go on.

    >>> print(ProtocolFault("a frame has no tag"))
    a frame has no tag
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
