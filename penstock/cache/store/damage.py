"""Damage in the words of a user: instead of a database and the bytes of a key, the view and group that they are of.

Rows say where they were read by the name of their database, which is all that is known there. Whoever knows what the
databases are for names damage on its way out, once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from penstock.cache.encoding.keys import decode_key, is_long
from penstock.cache.errors import PenstockError, StoreDamaged
from penstock.cache.messages import shown_key

__all__ = ["Place", "key_shown", "named", "naming", "number_shown"]

_HEAD = 24  # bytes that are shown of a key that is not stored whole
COPY = "restore the store from a copy, or load its documents into a new path"


@dataclass(frozen=True, slots=True)
class Place:
    """What a database is for, how its keys are shown, and what to do about damage in it."""

    words: str
    key: Callable[[bytes], str]
    step: str = COPY


def named(damage: StoreDamaged, places: Mapping[str, Place]) -> StoreDamaged:
    """The same damage, its place by name.

    >>> from penstock.cache import encode_key
    >>> place = Place("view 'names'", key_shown("group"), "restate it")
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
    """What `naming` gives: a class of its own, since it is entered at each read."""

    __slots__ = ("_places",)

    def __init__(self, places: Callable[[], Mapping[str, Place]]) -> None:
        self._places = places

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, StoreDamaged):
            own = named(error, self._places())
            if own is not error:
                raise own from error


def naming(places: Callable[[], Mapping[str, Place]]) -> AbstractContextManager[None]:
    """Name the damage that is found within."""
    return _Naming(places)


def key_shown(what: str) -> Callable[[bytes], str]:
    """How a stored key of a document or group is shown."""

    def show(key: bytes) -> str:
        try:
            return f"{what} {shown_key(decode_key(key))}" if not is_long(key) else f"{what} {key[:_HEAD].hex()}…"
        except PenstockError:
            return f"key {key.hex()}"

    return show


def number_shown(what: str) -> Callable[[bytes], str]:
    """How a key that is a number is shown."""
    return lambda key: f"{what} {int.from_bytes(key, 'big')}"
