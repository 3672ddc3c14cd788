"""Errors of sinks. Each names the sink, the reason and the next step."""

from __future__ import annotations

from penstock.cache import PenstockError
from penstock.views import Position, position_text

__all__ = ["SinkBehind", "SinkBusy", "SinkTaken"]


class SinkTaken(PenstockError):
    """The sink holds other data, or another process writes it.

    >>> print(SinkTaken("out.jsonl", "it holds something else than changes of view 'namecount'"))
    out.jsonl: it holds something else than changes of view 'namecount'; name another file, or move this one away
    """

    def __init__(self, sink: str, reason: str, remedy: str = "name another file, or move this one away") -> None:
        super().__init__(sink, reason, remedy)
        self.sink = sink
        self.reason = reason
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.sink}: {self.reason}; {self.remedy}"


class SinkBusy(SinkTaken):
    """Another process of the same store writes the sink, and delivers the changes meanwhile.

    >>> print(SinkBusy("out.jsonl", "process 4711"))
    out.jsonl: process 4711 writes it; wait until that one lets go
    """

    def __init__(self, sink: str, writer: str) -> None:
        super().__init__(sink, f"{writer} writes it", "wait until that one lets go")
        self.writer = writer


class SinkBehind(PenstockError):
    """The sink's position is older than the changes feed, or newer than the store.

    >>> print(SinkBehind("namecount=out.jsonl", 3, "the feed reaches back to position 17 only"))
    namecount=out.jsonl has all changes up to position 3, and the feed reaches back to position 17 only; name an empty \
sink, which is given all rows first
    """

    def __init__(self, sink: str, position: Position, reason: str) -> None:
        super().__init__(sink, position, reason)
        self.sink = sink
        self.position = position
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"{self.sink} has all changes up to position {position_text(self.position)}, and {self.reason}; name an "
            "empty sink, which is given all rows first"
        )
