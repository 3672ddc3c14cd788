"""The laws of a user's map and reducer. A view can be updated step by step only if they hold.

    map              the same document always yields the same emission; the order of its pairs is irrelevant
    map, reducer     another process gives the same result
    reducer          merge is associative and commutative, zero is neutral, and unmerge reverts merge
    reduce function  its result over its own results is its result over all values
    both             no function changes its arguments

A broken law is described in one sentence, with the smallest documents that show it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from penstock.recovery import identity, value_of

Pair = tuple[Any, Any]
"""A key and its document."""


class Law(Enum):
    """A law, named by its breach."""

    RANDOM = "a map that is not deterministic"
    HIDDEN = "a map with hidden state"
    PROCESS = "a result that depends on the process"
    IN_PLACE = "a reducer that changes its arguments"
    UNSTEADY = "a reducer that is not deterministic"
    ZERO = "a zero that is not neutral"
    ORDER = "a reducer that is not commutative"
    GROUPING = "a reducer that is not associative"
    INVERSE = "an unmerge that is not the inverse of merge"


@dataclass(frozen=True, slots=True)
class Breach:
    """A broken law: the view, the reason in a sentence, and the smallest documents, by key, that show it."""

    view: str
    law: Law
    why: str
    documents: tuple[Pair, ...]

    def __str__(self) -> str:
        documents = "".join(f"\n    {key!r}: {doc!r}" for key, doc in self.documents)
        return f"{self.law.value}: {self.why}{documents}"


def distinct(docs: Iterable[Pair]) -> list[Pair]:
    """Return the documents, each once."""
    return list({identity(doc): (key, doc) for key, doc in docs}.values())


def same(one: Any, other: Any) -> bool:
    """Return whether two values are equal as document values. A value that is invalid in a document equals nothing."""
    try:
        return bool(identity(value_of(one)) == identity(value_of(other)))
    except Exception:
        return False
