"""The record of one operation: its kind, its operator, its progress and its result.

waiting ──▶ running ──▶ done | failed | cancelled
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Self

from penstock.cache import PenstockError

__all__ = ["OperationCancelled", "OperationRecord", "OperationState", "OperationUnderWay"]


class OperationState(Enum):
    """The state of an operation."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """Return True for a state that no other one follows."""
        return self not in (OperationState.WAITING, OperationState.RUNNING)


class OperationUnderWay(PenstockError):
    """An operation of this kind runs already.

    >>> print(OperationUnderWay("Check", "17"))
    operation 17 is a Check that runs already; wait for its end at /v1/operations/17, or cancel it
    """

    def __init__(self, kind: str, number: str) -> None:
        super().__init__(kind, number)
        self.kind = kind
        self.number = number

    def __str__(self) -> str:
        return (
            f"operation {self.number} is a {self.kind} that runs already; wait for its end at "
            f"/v1/operations/{self.number}, or cancel it"
        )


class OperationCancelled(Exception):
    """The operator cancelled the operation, or the server stops."""


@dataclass(frozen=True, slots=True)
class OperationRecord:
    """One operation; `by` is the name of an access token, and `result` is JSON.

    >>> record = OperationRecord("17", "Check", "board", OperationState.RUNNING, 3, 10, began=0.0)
    >>> OperationRecord.of_text(record.text) == record, record.data()["began"]
    (True, '1970-01-01T00:00:00+00:00')
    """

    id: str
    kind: str
    by: str
    state: OperationState
    done: int = 0
    total: int = 0
    result: str = ""
    error: str = ""
    began: float = 0.0
    ended: float = 0.0

    @property
    def text(self) -> str:
        """The record as its file has it."""
        return json.dumps(asdict(self) | {"state": self.state.value})

    @classmethod
    def of_text(cls, text: str) -> Self:
        """Return the record of a file."""
        given: dict[str, Any] = json.loads(text)
        given["state"] = OperationState(given["state"])
        return cls(**given)

    def data(self) -> dict[str, Any]:
        """Return the record as the API has it, with times in UTC."""
        out: dict[str, Any] = {"id": self.id, "kind": self.kind, "by": self.by, "state": self.state.value}
        out |= {"done": self.done, "total": self.total, "began": _moment(self.began)}
        if self.state.ended:
            out["ended"] = _moment(self.ended)
        if self.result:
            out["result"] = json.loads(self.result)
        if self.error:
            out["error"] = self.error
        return out


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
