"""Stores to copy."""

from __future__ import annotations

from pathlib import Path

import penstock as ps
from penstock.cache import mark_folder
from tests.remote.holding import DOCS, shop


def filled(path: Path, rounds: int = 5) -> str:
    """Make a store with all kinds of rows and free pages; return its digest."""
    with ps.open(shop(), path) as engine:
        for ts in range(rounds):
            engine.put_many("users", [doc | {"ts": ts, "x": "x" * 900} for doc in DOCS * 3], batch=40)
        engine.delete("users", 3, ts=9)
        engine.put("users", {"id": 1, "ts": 99})  # a view can't accept it
        engine.put("marks", {"id": 1}, ts=3)
        engine.put("marks", {"id": None}, ts=3)  # goes to quarantine
        return engine.digest()


def digest(path: Path) -> str:
    with ps.open(shop(), path, readonly=True) as engine:
        return engine.digest()


def mark_again(place: Path) -> None:
    """Mark the folders of an image as they were marked in the original, because a copied mark is invalid."""
    for mark in place.rglob("made-by-penstock"):
        mark_folder(str(mark.parent))
