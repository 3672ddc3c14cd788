"""Check the laws of a map: each document is mapped alone and three times in two orders, with the same emission.

If the emissions differ, the state between calls (`function_memory`) tells chance from hidden state. If the emission
also differs after that state was restored, the map is random. Otherwise it has hidden state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.recovery import emission, identity
from penstock.testing.laws.function_memory import Memory
from penstock.testing.laws.laws import Breach, Law, Pair
from penstock.views import FieldMap, View

_OFTEN = 16  # calls with one document before chance is ruled out


def map_breach(view: View, docs: Sequence[Pair]) -> Breach | None:
    """Return the law that a view's function breaks on these documents. Return None if the order makes no difference."""
    assert not isinstance(view.map, FieldMap), "a map by fields has no function"
    with Memory(view.map.function) as memory:
        first = [_emissions_of(view, pair) for pair in docs]
        again = [_emissions_of(view, pair) for pair in docs]
        back = [_emissions_of(view, pair) for pair in reversed(docs)][::-1]
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
    """Return a document's emission in the initial state of the function."""
    memory.restore()
    return _emissions_of(view, pair)


def _by_chance(view: View, pair: Pair, memory: Memory) -> Breach | None:
    """Return a breach if the emission of a document differs although the function's state was restored."""
    memory.restore()
    first = _emissions_of(view, pair)
    for _ in range(_OFTEN):
        memory.restore()
        then = _emissions_of(view, pair)
        if then != first:
            reason = f"for one document it yields {_emissions_text(first)}, and then {_emissions_text(then)}"
            return Breach(view.name, Law.RANDOM, reason, (pair,))
    return None


def _by_state(view: View, pair: Pair, others: Sequence[Pair], names: Sequence[str], memory: Memory) -> Breach | None:
    """Return a breach if the emission of a document differs after other documents."""
    memory.restore()
    first = _emissions_of(view, pair)
    memory.restore()
    for other in others:
        _emissions_of(view, other)
    then = _emissions_of(view, pair)
    if then == first:
        return None
    state = " and ".join(repr(name) for name in names) or "something"
    which = "the same" if others == [pair] else "another" if len(others) == 1 else f"{len(others)} others"
    alone, after = _emissions_text(first), _emissions_text(then)
    reason = f"it keeps {state} from one document to the next: it yields {alone}, and after {which} {after}"
    return Breach(view.name, Law.HIDDEN, reason, (*others, pair) if others != [pair] else (pair,))


def _emissions_of(view: View, pair: Pair) -> Any:
    """Return the emission of a document, or the name of the error that the map raises."""
    try:
        return [(Same(group), Same(value)) for group, value in emission(view, *pair)]
    except Exception as error:
        return type(error).__name__


def _emissions_text(pairs: Any) -> str:
    if isinstance(pairs, str):
        return f"nothing but {pairs}"
    return repr([group.value if value.value is None else (group.value, value.value) for group, value in pairs])


class Same:
    """A wrapper that compares values as document values."""

    __slots__ = ("_own", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self._own = identity(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self._own == other._own

    def __hash__(self) -> int:
        return hash(self._own)
