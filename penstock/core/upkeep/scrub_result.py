"""The result of the last scrub of a store, kept in a file of its folder.

It is not stored in a row: a store with damaged pages must not be written, and a scrub of a sound one makes no commit.
The file names the data file by its inode, so the result of a replaced data file counts no longer.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime

import msgspec

from penstock.cache import DATA, SCRUB, PenstockError, file_mode, gate, must_be_own, sync_folder

__all__ = ["ScrubResult", "keep_result", "read_result"]

_BEGINNING = b'{"ended":'


class ScrubResult(msgspec.Struct, frozen=True):
    """The end of a scrub in seconds since 1970, its length in seconds, and the damage that it found.

    `stops` means that further writes would build on the damage. `file` is the inode of the data file.
    """

    ended: float
    seconds: float
    damaged: tuple[str, ...]
    stops: bool
    file: int

    @property
    def text(self) -> str:
        """The time of its end, for people and programs."""
        return datetime.fromtimestamp(self.ended, UTC).astimezone().isoformat(timespec="seconds")


def read_result(folder: str) -> ScrubResult | None:
    """Return the result of the last scrub of the store in a folder; None if there was none, or it can't be read."""
    name = os.path.join(folder, SCRUB)
    try:
        must_be_own(name, _BEGINNING)
        with open(name, "rb") as file:
            result = msgspec.json.decode(file.read(), type=ScrubResult)
        return result if result.file == _inode(folder) else None
    except (OSError, PenstockError, msgspec.DecodeError):
        return None


def keep_result(folder: str, seconds: float, damaged: Sequence[str], stops: bool) -> None:
    """Keep the result of a scrub that ended now: durable on return."""
    name = os.path.join(folder, SCRUB)
    must_be_own(name, _BEGINNING)
    with gate(folder):
        about = os.stat(os.path.join(folder, DATA))
        result = ScrubResult(time.time(), seconds, tuple(damaged), stops, about.st_ino)
        fresh = f"{name}.{threading.get_native_id()}"  # a thread may scrub while another one checks
        with suppress(FileNotFoundError):
            os.unlink(fresh)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(fresh, flags, 0o600), "wb") as file:
                os.fchmod(file.fileno(), file_mode(about.st_mode))
                file.write(msgspec.json.encode(result) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            os.rename(fresh, name)
        except BaseException:
            with suppress(OSError):
                os.unlink(fresh)
            raise
        sync_folder(folder)


def _inode(folder: str) -> int:
    return os.stat(os.path.join(folder, DATA)).st_ino
