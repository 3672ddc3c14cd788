"""Stores to copy."""

from __future__ import annotations

from pathlib import Path

import penstock as ps
from penstock.cache import mark_folder
from tests.remote.holding import DOCS, shop


def filled(path: Path, rounds: int = 5) -> str:
    """A store with all kinds of rows, and free pages; its digest."""
    with ps.open(shop(), path) as engine:
        for ts in range(rounds):
            engine.put_many("users", [doc | {"ts": ts, "x": "x" * 900} for doc in DOCS * 3], batch=40)
        engine.delete("users", 3, ts=9)
        engine.put("users", {"id": 1, "ts": 99})  # which a view can't take
        engine.put("marks", {"id": 1}, ts=3)
        engine.put("marks", {"id": None}, ts=3)  # which is kept apart
        return engine.digest()


def digest(path: Path) -> str:
    with ps.open(shop(), path, readonly=True) as engine:
        return engine.digest()


def mark_again(place: Path) -> None:
    """Give the folders of an image the marks that they had where the image was taken: a copied mark is void."""
    for mark in place.rglob("made-by-penstock"):
        mark_folder(str(mark.parent))
