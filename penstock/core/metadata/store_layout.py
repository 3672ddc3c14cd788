"""The layout of a partitioned store: a folder for each partition, and a file with the hashes that each owns.

A store of one partition has no such file, and its data is in the store's folder. A rename replaces the file as a whole,
so a store has either the old layout or the new one.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress

import msgspec

from penstock.cache import (
    DATA,
    MORE_FILES,
    PRIVATE,
    DefinitionError,
    PenstockError,
    StoreDamaged,
    StoreFormat,
    beside,
    checked,
    file_mode,
    make_private,
    sync_folder,
)
from penstock.core.metadata.store_format import FORMAT, format_in_file, must_be_readable
from penstock.mapreduce import KeyRanges

NAME = "partitions"
_READABLE = "give this user the right to read the store's folder"


class PartitionFolder(msgspec.Struct, frozen=True):
    """One partition: its folder within the store's, and the first hash that it owns, as 16 hexadecimal digits."""

    folder: str
    start: str


class StoreLayout(msgspec.Struct, frozen=True):
    """The partitions of a store, in the order of their hashes, and the seed of these hashes."""

    format: int
    app: str
    seed: int
    parts: tuple[PartitionFolder, ...]

    def ranges(self) -> KeyRanges:
        """Return the ranges, which assign keys to partitions."""
        return KeyRanges([int(partition.start, 16) for partition in self.parts], self.seed)

    def folders(self, path: str) -> list[str]:
        """Return the folder of each partition."""
        return [os.path.join(path, partition.folder) for partition in self.parts]


def layout_of(app: str, seed: int, starts: tuple[int, ...], turn: int) -> StoreLayout:
    """Make a layout with these first hashes; `turn` counts the repartitions of the store."""
    parts = tuple(PartitionFolder(f"{turn}-{i}", f"{start:016x}") for i, start in enumerate(starts))
    return StoreLayout(FORMAT, app, seed, parts)


def read_layout(path: str) -> StoreLayout | None:
    """Read the layout of the store at a path; None if it has one partition or does not exist."""
    try:
        with open(os.path.join(path, NAME), "rb") as file:
            data = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _unreadable(os.path.join(path, NAME), error) from error
    try:
        must_be_readable(path, data, format_in_file)
        return msgspec.json.decode(data, type=StoreLayout)
    except msgspec.ValidationError as error:
        raise StoreFormat(path, "unknown", FORMAT) from error
    except msgspec.DecodeError as error:
        raise StoreDamaged(f"the file {NAME!r} of the store at {path!r} is no JSON: {error}") from error


def write_layout(path: str, layout: StoreLayout, mode: int = PRIVATE) -> None:
    """Write the layout: durable on return. A replaced layout keeps its permissions."""
    make_private(path, mode)
    name = os.path.join(path, NAME)
    with beside(name, name) as folder:
        fresh = os.path.join(folder, NAME)
        with suppress(FileNotFoundError):
            mode = os.stat(name).st_mode
        with open(fresh, "wb") as file:
            os.fchmod(file.fileno(), file_mode(mode))
            file.write(msgspec.json.format(msgspec.json.encode(layout)) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, name)
    for folder in (path, os.path.dirname(os.path.abspath(path))):
        sync_folder(folder)


@checked
def partitions_of(path: str) -> int:
    """Return the number of partitions of the store at a path; 1 if there is none."""
    layout = read_layout(path)
    return 1 if layout is None else len(layout.parts)


@checked
def is_store(path: str) -> bool:
    """Return True if there is a store at a path, of one partition or several."""
    for name in (DATA, NAME):
        try:
            os.stat(os.path.join(path, name))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise _unreadable(os.path.join(path, name), error) from error
        return True
    return False


def _unreadable(name: str, error: OSError) -> PenstockError:
    reason = os.strerror(error.errno or 0).lower()
    many = error.errno in (errno.EMFILE, errno.ENFILE)
    return PenstockError(f"can't read {name}: {reason}; {MORE_FILES if many else _READABLE}")


def must_be_whole(path: str, what: str, instead: str = "") -> None:
    """Raise PenstockError if the store at a path has several partitions; `instead` names the command for those."""
    layout = read_layout(path)
    if layout is not None:
        raise PenstockError(
            f"{what} is of stores of one partition, and {path} has {len(layout.parts)}; "
            f"{instead and instead + ', and '}`penstock repartition --to 1 --store {path}` makes it one"
        )


class WrongPartitions(DefinitionError):
    """An error for an opening with another number of partitions than the store has."""

    def __init__(self, path: str, has: int, asked: int) -> None:
        super().__init__(
            f"the store at {path!r} has {has} partition{'s' if has > 1 else ''}, and was asked for with {asked}; "
            f"penstock repartition --store {path} --to {asked} makes it one of {asked}, or leave partitions= out"
        )
        self.path, self.has, self.asked = path, has, asked
