"""How two processes of one user talk over a socket in a store's folder: whole messages, and silence that is noticed.

A message is its length, four bytes big-endian, and so many bytes of MessagePack. Invariants:

- a path of any length can be bound and connected to: the socket is named through the folder's descriptor, since a
  socket's own name is limited to some 107 bytes;
- only the same user is talked to, whatever the mode of the file says;
- nothing is waited for without a bound: who says nothing for that long is `WireTimeout`, who is gone is `WireClosed`.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from penstock.cache import PenstockError, StoreDamaged, pack, unpack

__all__ = ["PROTOCOL", "Wire", "WireClosed", "WireTimeout", "connect", "end", "listen", "remove"]

PROTOCOL = 2
"""The version of what is said; the first message of each side has it."""
_MOST = 256 << 20  # bytes of the largest message
_PIECE = 1 << 20  # bytes for which memory is taken before they arrive: a length is only announced
_FILE = "socket"
_LENGTH = struct.Struct(">I")
_CREDENTIALS = struct.Struct("3i")
_WAITING = 64  # connections that may wait to be taken
_LOOKS, _LOOK = 3, 0.1  # a process that ends frees the lock of its store an instant before it stops to listen


class WireTimeout(Exception):
    """Nothing came for as long as one waits."""


class WireClosed(Exception):
    """The other side ended, or was never there."""


class Wire:
    """One connection, from either side."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.pid, self.uid = _peer(sock)

    def send(self, message: Any) -> None:
        """Say something; Gone where nobody hears it."""
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
        """The next message, waited for so many seconds (None: as long as it takes)."""
        self._sock.settimeout(patience)
        size = _LENGTH.unpack(self._bytes(_LENGTH.size))[0]
        if size > _MOST:
            raise WireClosed
        try:
            return unpack(self._bytes(size))
        except StoreDamaged:  # no message: who is there speaks otherwise
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
        """Hear nothing more, and wake who waits for it; what is being said can still be said."""
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RD)

    def drop(self) -> None:
        """Let go of it, and leave it to the process that it was inherited from."""
        self._sock.close()

    def close(self) -> None:
        """End it, also where another thread waits in it. Closing twice is nothing."""
        end(self._sock)


def end(sock: socket.socket) -> None:
    """Close a socket, and wake who waits in it."""
    with suppress(OSError):  # the other side, or this one, has closed it already
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()


def _peer(sock: socket.socket) -> tuple[int, int]:
    """The process and the user on the other side, by the kernel's word."""
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

    A socket there on which nobody listens is of a dead writer. OSError for any other file: another program made it.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short(path) as name:
            _must_be_dead(name)
            remove(path)
            os.fchmod(sock.fileno(), 0o600)  # before it has a name: nobody else can connect in between
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
    """Take the socket's name away. Without the right to do so it stays, and the next holder replaces it."""
    name = os.path.join(path, _FILE)
    with suppress(FileNotFoundError, PermissionError):
        if stat.S_ISSOCK(os.lstat(name).st_mode):
            os.unlink(name)


def connect(path: str, patience: float) -> Wire:
    """A connection to who listens in this folder; Gone where nobody does."""
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
