"""Describe damage in users' terms: by view and group instead of database and key bytes.

A row only knows the name of its database. A caller that knows the purpose of the databases translates the error, once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from penstock.cache.encoding.keys import decode_key, is_long
from penstock.cache.errors import PenstockError, StoreDamaged
from penstock.cache.messages import key_text

__all__ = ["DatabaseLabel", "named", "naming", "number_text", "stored_key_text"]

_HEAD = 24  # bytes that are shown of an abbreviated key
COPY = "restore the store from a copy, or load its documents into a new path"


@dataclass(frozen=True, slots=True)
class DatabaseLabel:
    """The purpose of a database in words, the way to show its keys, and the step to take after damage."""

    words: str
    key: Callable[[bytes], str]
    step: str = COPY


def named(damage: StoreDamaged, places: Mapping[str, DatabaseLabel]) -> StoreDamaged:
    """Return the same damage with its database and key in users' terms.

    >>> from penstock.cache import encode_key
    >>> place = DatabaseLabel("view 'names'", stored_key_text("group"), "restate it")
    >>> print(named(StoreDamaged("view:3", encode_key("Joe")), {"view:3": place}))
    damaged row: view 'names', group 'Joe'; restate it
    """
    if damage.step is not None:
        return damage
    where, _, more = damage.where.partition(", ")
    place = places.get(where)
    if place is None:
        return damage
    parts = [place.words, more, "" if damage.key is None else place.key(damage.key)]
    return StoreDamaged(", ".join(part for part in parts if part), None, place.step)


class _Naming:
    """The context manager of `naming`. It is a plain class because every read enters it."""

    __slots__ = ("_places",)

    def __init__(self, places: Callable[[], Mapping[str, DatabaseLabel]]) -> None:
        self._places = places

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, StoreDamaged):
            own = named(error, self._places())
            if own is not error:
                raise own from error


def naming(places: Callable[[], Mapping[str, DatabaseLabel]]) -> AbstractContextManager[None]:
    """Return a context manager that describes damage, found inside its block, in users' terms."""
    return _Naming(places)


def stored_key_text(what: str) -> Callable[[bytes], str]:
    """Return a function that shows a stored key of a document or group."""

    def show(key: bytes) -> str:
        try:
            return f"{what} {key_text(decode_key(key))}" if not is_long(key) else f"{what} {key[:_HEAD].hex()}…"
        except PenstockError:
            return f"key {key.hex()}"

    return show


def number_text(what: str) -> Callable[[bytes], str]:
    """Return a function that shows a key that is a number."""
    return lambda key: f"{what} {int.from_bytes(key, 'big')}"
