"""Files of a state on a file system that all processes share. A file is written once, under a name that none else uses.

Invariant: a file that `write` returned from is durable under its name, and `read` returns its bytes.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Protocol

from penstock.cache import PRIVATE, PenstockError, sync_folder

__all__ = ["LocalStateFiles", "StateFileMissing", "StateFiles"]

_BLOCK = 1 << 20


class StateFileMissing(PenstockError):
    """A file that a manifest names is not in the state.

    >>> print(StateFileMissing("shop", "log/0/000000000007-ab"))
    shop has no file log/0/000000000007-ab; put it back from a copy of the state
    """

    def __init__(self, state: str, name: str) -> None:
        super().__init__(state, name)
        self.state, self.name = state, name

    def __str__(self) -> str:
        return f"{self.state} has no file {self.name}; put it back from a copy of the state"


class StateFiles(Protocol):
    """The files of a state."""

    def write(self, name: str, data: Iterable[bytes]) -> None:
        """Write a new file, and make it durable. Raise FileExistsError if the name is taken."""
        ...

    def create(self, name: str, data: bytes) -> bool:
        """Write a small file in one step, and make it durable. Return False if the name is taken."""
        ...

    def read(self, name: str) -> Iterator[bytes]:
        """Yield the bytes of a file in blocks. Raise StateFileMissing if there is none."""
        ...

    def names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder, in order; none if there is no such folder."""
        ...

    def age(self, name: str) -> float:
        """Return the seconds since a file was written."""
        ...

    def delete(self, name: str) -> None:
        """Delete a file, if it is there."""
        ...


class LocalStateFiles:
    """A state in a folder of a file system that is mounted."""

    def __init__(self, folder: str) -> None:
        self.folder = os.path.abspath(folder)

    def write(self, name: str, data: Iterable[bytes]) -> None:
        """Write a new file, and make it durable with its name."""
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), PRIVATE, exist_ok=True)
        try:
            with open(path, "xb") as file:
                for block in data:
                    file.write(block)
                file.flush()
                os.fsync(file.fileno())
        except FileExistsError:
            raise
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(path)
            raise
        self._sync_above(path)

    def create(self, name: str, data: bytes) -> bool:
        """Write a small file in one step: a link to a file that is complete and durable."""
        partial = f"{name}.{secrets.token_hex(8)}.partial"
        self.write(partial, [data])
        path = os.path.join(self.folder, name)
        try:
            os.link(os.path.join(self.folder, partial), path)
        except FileExistsError:
            return False
        finally:
            os.unlink(os.path.join(self.folder, partial))
        self._sync_above(path)
        return True

    def _sync_above(self, path: str) -> None:
        """Make the names of a file and of its folders durable."""
        folder = os.path.dirname(path)
        while True:
            sync_folder(folder)
            if folder == self.folder:
                return
            folder = os.path.dirname(folder)

    def read(self, name: str) -> Iterator[bytes]:
        """Yield the bytes of a file in blocks."""
        try:
            with open(os.path.join(self.folder, name), "rb", buffering=0) as file:
                while block := file.read(_BLOCK):
                    yield block
        except FileNotFoundError:
            raise StateFileMissing(self.folder, name) from None

    def names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder."""
        try:
            found = sorted(os.listdir(os.path.join(self.folder, folder)))
        except FileNotFoundError:
            return []
        return [name for name in found if not name.endswith(".partial")]

    def age(self, name: str) -> float:
        """Return the seconds since a file was written."""
        return time.time() - os.stat(os.path.join(self.folder, name)).st_mtime

    def delete(self, name: str) -> None:
        """Delete a file, if it is there."""
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(self.folder, name))
