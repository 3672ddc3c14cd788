"""The laws of a map and of a reducer of a user's own, without which no view can be kept true step by step.

    of a map        it yields the same for the same document, whatever came before it; in which order means nothing
    of both         another process gives the same
    of a reducer    merge is associative and commutative, zero is neutral to it, unmerge takes back what merge added;
                    of a function that reducing its own results is reducing all values; none changes what it is given

What breaks a law is named in one sentence, with the smallest documents that show it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from penstock.recovery import identity, value_of

Pair = tuple[Any, Any]
"""A document, after its key."""


class Law(Enum):
    """A law, by the name of its breach."""

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
    """A law that is broken: of which view, why in a sentence, and the smallest documents, by key, that show it."""

    view: str
    law: Law
    why: str
    documents: tuple[Pair, ...]

    def __str__(self) -> str:
        shown = "".join(f"\n    {key!r}: {doc!r}" for key, doc in self.documents)
        return f"{self.law.value}: {self.why}{shown}"


def distinct(docs: Iterable[Pair]) -> list[Pair]:
    """The documents, each once."""
    return list({identity(doc): (key, doc) for key, doc in docs}.values())


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same document value; what is none is the same as nothing."""
    try:
        return bool(identity(value_of(one)) == identity(value_of(other)))
    except Exception:
        return False
