"""The message that starts the process of a partition: its number, its store and its app."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import IO

from penstock.core import Settings
from penstock.generations import GenerationNumbers
from penstock.partitions.app_transfer import AppTransfer

__all__ = ["StartMessage", "read_message", "write_message"]


@dataclass(frozen=True, slots=True)
class StartMessage:
    """The partition that a process serves, with its store and its app."""

    app: AppTransfer
    folders: tuple[str, ...]
    partition: int
    starts: tuple[int, ...]
    seed: int
    settings: Settings
    deadline: float  # seconds that a batch waits for its early sets before it is saved
    patience: float  # seconds without a sign of life after which a process counts as hanging
    generation_numbers: GenerationNumbers  # which views all partitions build


def write_message(file: IO[bytes], message: StartMessage) -> None:
    """Send the start message to a process."""
    data = pickle.dumps(message)
    file.write(len(data).to_bytes(8, "big") + data)
    file.flush()


def read_message(file: IO[bytes]) -> StartMessage:
    """Read the start message of this process; EOFError if the sender ended before it sent one."""
    size = int.from_bytes(file.read(8), "big")
    data = file.read(size)
    if not size or len(data) < size:
        raise EOFError
    message = pickle.loads(data)
    assert isinstance(message, StartMessage), "a start message was sent"
    return message
