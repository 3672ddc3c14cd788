"""The request of a front for an operation that needs the store for itself, and the answer to it.

The request goes to the first process on the front's pipe. The answer is a file, as the first process has no pipe to a
front.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from penstock.cache import PenstockError
from penstock.remote import error_data, error_of

__all__ = ["IdleAnswer", "IdleRequest"]

_LONGEST = 9.0  # seconds for an answer
_LOOK = 0.05


@dataclass(frozen=True, slots=True)
class IdleRequest:
    """A request of an operator; `answer` is the path of the file for the answer."""

    kind: str
    by: str
    given: Mapping[str, Any]
    answer: str

    def data(self) -> dict[str, Any]:
        """Return the request as plain data."""
        return asdict(self)

    @classmethod
    def of(cls, data: dict[str, Any]) -> Self:
        """Build the request from plain data."""
        return cls(**data)


class IdleAnswer:
    """The file by which a front gets its answer."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def begun(self, number: str) -> None:
        """Answer with the number of the operation."""
        self._write({"id": number})

    def refused(self, error: PenstockError) -> None:
        """Answer that the operation did not begin."""
        self._write({"failed": error_data(error)})

    def number(self) -> str:
        """Wait for the answer, and return the number of the operation. PenstockError if it was refused."""
        until, pause = time.monotonic() + _LONGEST, threading.Event()
        while not self._path.exists():
            if time.monotonic() > until:
                raise PenstockError("the first process of the server has not answered; see /v1/operations, and its log")
            pause.wait(_LOOK)
        data: dict[str, Any] = json.loads(self._path.read_text())
        self._path.unlink()
        if "failed" in data:
            raise error_of(data["failed"], "the first process")
        return str(data["id"])

    def _write(self, data: dict[str, Any]) -> None:
        part = self._path.with_suffix(".part")
        part.write_text(json.dumps(data))
        os.replace(part, self._path)
