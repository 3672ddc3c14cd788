"""Errors of the connector protocol. Each names the reason, and the log of a damaged record."""

from __future__ import annotations

from penstock.cache import PenstockError

__all__ = ["ConnectorFault", "HostClosed", "LogDamaged", "PointLost", "ProtocolFault"]


class ConnectorFault(PenstockError):
    """The connector API refuses a call, or its peer ended the session for good.

    >>> print(ConnectorFault("127.0.0.1:7100", "the peer refused the cookie", "compare both cookies"))
    127.0.0.1:7100: the peer refused the cookie; compare both cookies
    """

    def __init__(self, where: str, reason: str, remedy: str) -> None:
        super().__init__(where, reason, remedy)
        self.where = where
        self.reason = reason
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}; {self.remedy}"


class PointLost(ConnectorFault):
    """The worker stands before a message that it had acknowledged, for example after its backup was restored."""


class ProtocolFault(PenstockError):
    """Bytes or a frame break the connector protocol. The session that raises it ends; others go on.

    >>> print(ProtocolFault("a frame has no tag"))
    a frame has no tag
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class HostClosed(PenstockError):
    """The host of a session was closed, so no further step can become durable. The session ends without ERROR."""

    def __init__(self) -> None:
        super().__init__("the host of the session was closed")


class LogDamaged(PenstockError):
    """A whole record of a transaction log is damaged. A record that the end of the log cuts is no damage.

    >>> print(LogDamaged("sink.log", 40))
    sink.log: the record at byte 40 is damaged; restore the log and its data from one copy
    """

    def __init__(self, where: str, offset: int) -> None:
        super().__init__(where, offset)
        self.where = where
        self.offset = offset

    def __str__(self) -> str:
        return f"{self.where}: the record at byte {self.offset} is damaged; restore the log and its data from one copy"
