"""A relay on loopback between a coordinator and a sink. It cuts one connection before or after a chosen frame."""

from __future__ import annotations

import select
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import Enum
from threading import Thread
from typing import Self

from tests.connector.reference.frames import Frame, decoded
from tests.waiting import PATIENCE


class Cut(Enum):
    """The end of both connections of the relay, at a boundary of a frame."""

    BEFORE = "before"
    AFTER = "after"


class CuttingRelay:
    """Forwards whole frames in both directions. `cut` sees each of them once, until it has returned a `Cut`."""

    def __init__(self, target: tuple[str, int], cut: Callable[[Frame], Cut | None]) -> None:
        self.frames: list[Frame] = []
        """All frames that were forwarded."""
        self.cuts = 0
        self._target, self._cut = target, cut
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        self._thread = Thread(target=self._serve)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(PATIENCE)
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            with peer, socket.create_connection(self._target) as other, suppress(ConnectionError):
                self._forward(peer, other)

    def _forward(self, peer: socket.socket, other: socket.socket) -> None:
        ways = {peer: (bytearray(), other), other: (bytearray(), peer)}
        while True:
            for source in select.select(list(ways), [], [], PATIENCE)[0]:
                buffer, target = ways[source]
                data = source.recv(1 << 16)
                if not data:
                    return
                buffer += data
                for raw in _whole(buffer):
                    frame = decoded(raw[4:])
                    cut = None if self.cuts else self._cut(frame)
                    self.cuts += cut is not None
                    if cut is Cut.BEFORE:
                        return
                    self.frames.append(frame)
                    target.sendall(raw)
                    if cut is Cut.AFTER:
                        return


def _whole(buffer: bytearray) -> Iterator[bytes]:
    """Take whole frames from the start of a buffer."""
    while len(buffer) >= 4:
        end = 4 + int(struct.unpack_from(">I", buffer)[0])
        if len(buffer) < end:
            return
        raw = bytes(buffer[:end])
        del buffer[:end]
        yield raw
