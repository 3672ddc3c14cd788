"""The common part of both sinks of the Wallaroo connector protocol: settings, claim, log and waiting messages.

Each message is a line of a file sink: {"view", "group", "value", "position"}, with "deleted" if the group is gone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import NoReturn

from penstock.cache import hidden
from penstock.connector import is_worker_name
from penstock.sink.change_lines import change_line
from penstock.sink.errors import SinkBusy, SinkTaken
from penstock.sink.protocol import Claiming, nobody
from penstock.views import Change

__all__ = ["ELSEWHERE", "ViewSender"]

ELSEWHERE = "send this view to a file or to a topic"
_MOST = 256 << 20  # bytes of the changes up to one position


class ViewSender:
    """A client of the protocol that sends one view. `folder` is that of the store, `app` the name of its app."""

    def __init__(
        self,
        text: str,
        address: tuple[str, int],
        cookie: str,
        name: str | None,
        view: str,
        envelope: str,
        dumps: Callable[[object], str],
    ) -> None:
        self.claim: Claiming = nobody
        self.folder = "."
        self.app = "penstock"
        self.stopped: Callable[[], bool] = lambda: False
        self.say: Callable[[str], None] = lambda text: None
        self._text = hidden(text)
        self._address = address
        self._cookie = cookie
        self._name = name
        self._view = view
        self._envelope = envelope
        self._dumps = dumps
        self._bodies: list[bytes] = []
        self._size = 0

    def write(self, changes: Sequence[Change]) -> None:
        """Keep changes until their position is complete."""
        for change in changes:
            body = (self._dumps(change_line(change, self._envelope)) + "\n").encode()
            self._check_message(change, body)
            self._bodies.append(body)
            self._size += len(body)
        if self._size > _MOST:
            self._refuse(f"the changes up to one position have more than {_MOST >> 20} MB", ELSEWHERE)

    def tend(self) -> None:
        """Exchange messages with the other side, if any are due."""
        raise NotImplementedError

    def finish(self) -> None:
        """Wait until the other side has everything."""
        raise NotImplementedError

    def _check_message(self, change: Change, body: bytes) -> None:
        """Refuse a message that the other side can't take."""

    def _clear(self) -> None:
        """Forget the kept messages."""
        self._bodies.clear()
        self._size = 0

    def _claimed(self, place: str) -> str:
        """Claim this sink by its place, and return the path of its log."""
        other = self.claim(place)
        if other is not None:
            raise SinkBusy(self._text, other)
        file = blake2b(place.encode(), digest_size=8).hexdigest()
        return os.path.join(self.folder, "connector", f"{file}.log")

    def _sender(self, kind: str) -> str:
        """Return the name under which this sink connects, as a worker or as a connector."""
        name = self._name or self.app
        if not is_worker_name(name):
            remedy = "add name= with letters, digits, _, - and ."
            raise SinkTaken(self._text, f"{name!r} is no name of a {kind}", remedy)
        return name

    def _refuse(self, reason: str, remedy: str) -> NoReturn:
        raise SinkTaken(self._text, f"view {self._view!r}: {reason}", remedy)
