"""Messages between two processes of one user over a socket in the folder of a store, with a limit on silence.

A message is its length, four bytes big-endian, and so many bytes of MessagePack. Invariants:

- the path of the folder can have any length. The name of a socket is limited to some 107 bytes, so the socket is named
  through the descriptor of the folder;
- each side checks the user of the other, so the permissions of the file do not matter;
- every wait can have a limit. Silence raises `WireTimeout`, and an ended process raises `WireClosed`.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import stat
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from penstock.cache import PenstockError, StoreDamaged, pack, unpack

__all__ = ["PROTOCOL", "Wire", "WireClosed", "WireTimeout", "connect", "end", "listen", "remove"]

PROTOCOL = 3
"""The version of the protocol; the first message of the server contains it."""
_MOST = 256 << 20  # bytes of the largest message
_PIECE = 1 << 20  # bytes for which memory is taken before they arrive: a length is only announced
_FILE = "socket"
_LENGTH = struct.Struct(">I")
_CREDENTIALS = struct.Struct("3i")
_WAITING = 64  # connections that may wait to be taken
_LOOKS, _LOOK = 3, 0.1  # a process that ends frees the lock of its store an instant before it stops to listen


class WireTimeout(Exception):
    """No data came within the limit of a wait."""


class WireClosed(Exception):
    """The other side ended, or was never there."""


class Wire:
    """One connection, from either side."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.pid, self.uid = _peer(sock)

    def send(self, message: Any) -> None:
        """Send a message; WireClosed if the other side has ended."""
        data = pack(message)
        if len(data) > _MOST:
            limit = f"more than the {_MOST:,} that one process hands to another"
            raise PenstockError(f"a batch has {len(data):,} bytes, {limit}; put it in smaller batches")
        try:
            self._sock.sendall(_LENGTH.pack(len(data)) + data)
        except TimeoutError:
            raise WireTimeout from None
        except OSError as error:
            raise WireClosed from error

    def receive(self, patience: float | None) -> Any:
        """Wait so many seconds for the next message (None: without a limit)."""
        self._sock.settimeout(patience)
        size = _LENGTH.unpack(self._bytes(_LENGTH.size))[0]
        if size > _MOST:
            raise WireClosed
        try:
            return unpack(self._bytes(size))
        except StoreDamaged:  # not a message of this protocol
            raise WireClosed from None

    def _bytes(self, size: int) -> bytes:
        parts: list[bytes] = []
        while size:
            try:
                got = self._sock.recv(min(size, _PIECE))
            except TimeoutError:
                raise WireTimeout from None
            except OSError as error:
                raise WireClosed from error
            if not got:
                raise WireClosed
            parts.append(got)
            size -= len(got)
        return b"".join(parts)

    def hang_up(self) -> None:
        """Stop receiving, and wake a thread that waits for a message. Sending still works."""
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RD)

    @property
    def ended(self) -> bool:
        """True if an unread message waits, or the other side has ended. An idle connection should have neither."""
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        return bool(poll.poll(0))

    def drop(self) -> None:
        """Close this copy of an inherited connection; the parent keeps its own."""
        self._sock.close()

    def close(self) -> None:
        """End the connection, and wake a thread that waits in it. A second call does nothing."""
        end(self._sock)


def end(sock: socket.socket) -> None:
    """Close a socket, and wake threads that wait in it."""
    with suppress(OSError):  # the other side, or this one, has closed it already
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()


def _peer(sock: socket.socket) -> tuple[int, int]:
    """Ask the kernel for the process and the user of the other side."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(raw)
    return pid, uid


@contextmanager
def _short(path: str) -> Iterator[str]:
    """A short name of the socket in this folder, good inside the block."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{_FILE}"
    finally:
        os.close(folder)


def listen(path: str) -> socket.socket:
    """Listen in this folder; only the store's one writer may.

    A socket without a listener belongs to a dead writer, and is replaced. Any other file raises OSError.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short(path) as name:
            _must_be_dead(name)
            remove(path)
            os.fchmod(sock.fileno(), 0o600)  # before it has a name, so that no other user can connect
            sock.bind(name)
        sock.listen(_WAITING)
    except BaseException:
        sock.close()
        raise
    return sock


def _must_be_dead(name: str) -> None:
    """Raise OSError if another program has a file under this name, or listens there."""
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.lstat(name).st_mode):
            raise FileExistsError(errno.EEXIST, f"another program has a file {_FILE!r} there")
    for _ in range(_LOOKS):
        if not _is_listening(name):
            return
        time.sleep(_LOOK)
    raise OSError(errno.EADDRINUSE, f"another program listens on {_FILE!r} there")


def _is_listening(name: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(name)
        except BlockingIOError:  # more connections wait than it takes
            return True
        except OSError:
            return False
        return True


def remove(path: str) -> None:
    """Remove the socket from the folder. Without the right to do so it stays, and the next holder replaces it."""
    name = os.path.join(path, _FILE)
    with suppress(FileNotFoundError, PermissionError):
        if stat.S_ISSOCK(os.lstat(name).st_mode):
            os.unlink(name)


def connect(path: str, patience: float) -> Wire:
    """Connect to the process that listens in this folder; WireClosed if there is none."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(patience)
    try:
        with _short(path) as name:
            sock.connect(name)
        return Wire(sock)
    except TimeoutError:
        sock.close()
        raise WireTimeout from None
    except PermissionError as error:
        sock.close()
        raise PenstockError(
            f"no permission for the socket of the store at {path}: only the user whose process writes it can hand work "
            "over; run this as that user"
        ) from error
    except OSError as error:
        sock.close()
        raise WireClosed from error
