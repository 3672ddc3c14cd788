"""What can be wrong with a sink: each error names it, says what is wrong, and what to do next."""

from __future__ import annotations

from penstock.cache import PenstockError
from penstock.views import Position, shown_position

__all__ = ["SinkBehind", "SinkBusy", "SinkTaken"]


class SinkTaken(PenstockError):
    """A sink that holds something else, or that another process writes.

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
    """A sink that another process writes from the same store, whose changes it is given by that one meanwhile.

    >>> print(SinkBusy("out.jsonl", "process 4711"))
    out.jsonl: process 4711 writes it; wait until that one lets go
    """

    def __init__(self, sink: str, writer: str) -> None:
        super().__init__(sink, f"{writer} writes it", "wait until that one lets go")
        self.writer = writer


class SinkBehind(PenstockError):
    """A sink that stands at a position which the feed no longer reaches back to, or which the store has not come to.

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
            f"{self.sink} has all changes up to position {shown_position(self.position)}, and {self.reason}; name an "
            "empty sink, which is given all rows first"
        )
