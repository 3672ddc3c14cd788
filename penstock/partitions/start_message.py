"""What the process of a partition is told: which one it is, of what store, by which app."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import IO

from penstock.core.settings import Settings
from penstock.partitions.app_transfer import Shipped
from penstock.partitions.generation_numbers import Concert

__all__ = ["Order", "read_order", "write_order"]


@dataclass(frozen=True, slots=True)
class Order:
    """What a process is to be: which partition, of what store, by which app."""

    app: Shipped
    folders: tuple[str, ...]
    here: int
    starts: tuple[int, ...]
    seed: int
    settings: Settings
    deadline: float  # seconds after which what is told early, and is not there, is saved
    patience: float  # seconds without a sign of life after which who was asked counts as hanging
    concert: Concert  # which views all partitions build


def write_order(file: IO[bytes], order: Order) -> None:
    """Tell a process what it is."""
    data = pickle.dumps(order)
    file.write(len(data).to_bytes(8, "big") + data)
    file.flush()


def read_order(file: IO[bytes]) -> Order:
    """What this process is; EOFError where nobody says so any more."""
    size = int.from_bytes(file.read(8), "big")
    data = file.read(size)
    if not size or len(data) < size:
        raise EOFError
    order = pickle.loads(data)
    assert isinstance(order, Order), "an order was sent"
    return order
