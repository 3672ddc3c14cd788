"""The laws of a map: every document is told alone and three times, in two orders; each time it must yield the same.

Where it is not, what it keeps between calls (`function_memory`) tells chance from hidden state: with that put back it
yields the same again, or it doesn't.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.recovery import emission, identity
from penstock.testing.laws.function_memory import Memory
from penstock.testing.laws.laws import Breach, Law, Pair
from penstock.views import FieldMap, View

_OFTEN = 16  # one document is told so often before chance is ruled out


def map_breach(view: View, docs: Sequence[Pair]) -> Breach | None:
    """What a view's function breaks on these documents; nothing where they are told alike in any order."""
    assert not isinstance(view.map, FieldMap), "a map by fields has no function"
    with Memory(view.map.function) as memory:
        first = [_told(view, pair) for pair in docs]
        again = [_told(view, pair) for pair in docs]
        back = [_told(view, pair) for pair in reversed(docs)][::-1]
        names = memory.changed()
        alone = [_alone(view, pair, memory) for pair in docs]
        suspects = [pair for i, pair in enumerate(docs) if not first[i] == again[i] == back[i] == alone[i]]
        if not suspects:
            return None
        by_chance = next(filter(None, (_by_chance(view, pair, memory) for pair in suspects)), None)
        if by_chance is not None:
            return by_chance
        for pair in suspects:
            for others in ([pair], *([other] for other in docs if other is not pair), docs):
                found = _by_state(view, pair, others, names, memory)
                if found is not None:
                    return found
        return Breach(view.name, Law.RANDOM, "it yields now this and now that for one document", (suspects[0],))


def _alone(view: View, pair: Pair, memory: Memory) -> Any:
    """Tell a document in a memory that knows no other."""
    memory.restore()
    return _told(view, pair)


def _by_chance(view: View, pair: Pair, memory: Memory) -> Breach | None:
    """Whether a document is told otherwise though all that the function keeps is as it was."""
    memory.restore()
    first = _told(view, pair)
    for _ in range(_OFTEN):
        memory.restore()
        then = _told(view, pair)
        if then != first:
            why = f"for one document it yields {_shown(first)}, and then {_shown(then)}"
            return Breach(view.name, Law.RANDOM, why, (pair,))
    return None


def _by_state(view: View, pair: Pair, others: Sequence[Pair], names: Sequence[str], memory: Memory) -> Breach | None:
    """Whether a document is told otherwise after others."""
    memory.restore()
    first = _told(view, pair)
    memory.restore()
    for other in others:
        _told(view, other)
    then = _told(view, pair)
    if then == first:
        return None
    kept = " and ".join(repr(name) for name in names) or "something"
    which = "the same" if others == [pair] else "another" if len(others) == 1 else f"{len(others)} others"
    why = f"it keeps {kept} from one document to the next: it yields {_shown(first)}, and after {which} {_shown(then)}"
    return Breach(view.name, Law.HIDDEN, why, (*others, pair) if others != [pair] else (pair,))


def _told(view: View, pair: Pair) -> Any:
    """What a view is told of a document; what is raised is the same for the same document too."""
    try:
        return [(Same(group), Same(value)) for group, value in emission(view, *pair)]
    except Exception as error:
        return type(error).__name__


def _shown(told: Any) -> str:
    if isinstance(told, str):
        return f"nothing but {told}"
    return repr([group.value if value.value is None else (group.value, value.value) for group, value in told])


class Same:
    """A value that equals where it is the same document value."""

    __slots__ = ("_own", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self._own = identity(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self._own == other._own

    def __hash__(self) -> int:
        return hash(self._own)
