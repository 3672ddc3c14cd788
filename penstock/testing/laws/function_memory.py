"""Find, compare and restore the state that a function keeps between calls.

Such state is in closure variables, globals, defaults, attributes, and the object of a method. It is found by the names
that the function's code mentions, also in functions of its own module that it calls. Modules, classes, and functions
of other modules are ignored. A memo or a counter is no fault if it does not affect the result: the caller decides.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Self

_DEEPEST = 4
_FIXED = (type(None), bool, int, float, str, bytes)


@dataclass(slots=True)
class _Slot:
    """A place that holds a value, with functions to read and to set it. With `many`, the value maps names to values."""

    name: str
    get: Callable[[], Any]
    put: Callable[[Any], None]
    many: bool = False

    def prints(self) -> dict[str, bytes]:
        """Return a fingerprint of each value by name. Different values have different fingerprints."""
        held = self.get()
        return {name: _print(value) for name, value in held.items()} if self.many else {self.name: _print(held)}


@dataclass(slots=True)
class _Kept:
    slot: _Slot
    original: Any
    saved: Any
    prints: dict[str, bytes]


class Memory:
    """The state of a function between calls. As a context manager it restores the state at the end."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._kept: list[_Kept] = []
        self._slots = list(_slots(function, getattr(function, "__module__", ""), set(), 0))

    def __enter__(self) -> Self:
        for slot in self._slots:
            value = slot.get()
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    saved = deepcopy(value)
            except Exception:
                saved = value  # it can't be put back, only watched
            self._kept.append(_Kept(slot, value, saved, slot.prints()))
        self.restore()  # the function works on copies, so the originals stay unchanged
        return self

    def __exit__(self, *_: object) -> None:
        for kept in self._kept:
            kept.slot.put(kept.original)

    def changed(self) -> list[str]:
        """Return the names of the values that changed."""
        names: set[str] = set()
        for kept in self._kept:
            now, before = kept.slot.prints(), kept.prints
            names.update(name for name in now.keys() | before.keys() if now.get(name) != before.get(name))
        return sorted(names)

    def restore(self) -> None:
        """Restore the initial values."""
        for kept in self._kept:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                kept.slot.put(deepcopy(kept.saved) if kept.saved is not kept.original else kept.saved)


def _print(value: Any) -> bytes:
    """Return bytes that differ if the value differs."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return pickle.dumps(value)
    except Exception:
        return repr(value).encode("utf-8", "replace")


def _slots(thing: Any, module: str, seen: set[int], depth: int) -> Iterator[_Slot]:
    """Yield the places in which a function, method or callable object can keep a value."""
    if id(thing) in seen or depth > _DEEPEST:
        return
    seen.add(id(thing))
    if _is_cache(thing):
        yield _Slot(thing.__name__, thing.cache_info, lambda _: thing.cache_clear())
        yield from _slots(thing.__wrapped__, module, seen, depth + 1)
        return
    if isinstance(thing, MethodType):
        yield from _attributes(thing.__self__)
        yield from _slots(thing.__func__, module, seen, depth + 1)
        return
    if not isinstance(thing, FunctionType):
        yield from _attributes(thing)
        call = vars(type(thing)).get("__call__")
        if isinstance(call, FunctionType):
            yield from _slots(call, module, seen, depth + 1)
        return
    yield from _attributes(thing)
    for slot, held in _around(thing):
        own = isinstance(held, FunctionType | MethodType) and getattr(held, "__module__", "") == module
        if own or _is_cache(held):
            yield from _slots(held, module, seen, depth + 1)
        elif _may_change(held, module):
            yield slot
            if not isinstance(held, _FIXED):
                yield from _attributes(held)


def _is_cache(thing: Any) -> bool:
    """Return True for a function with functools.cache or lru_cache."""
    return hasattr(thing, "cache_clear") and hasattr(thing, "cache_info") and hasattr(thing, "__wrapped__")


def _around(function: FunctionType) -> Iterator[tuple[_Slot, Any]]:
    """Yield a function's defaults, its closure variables, and the globals that its code names, each with its value."""
    if function.__defaults__:
        yield _Slot("defaults", lambda: function.__defaults__, partial(setattr, function, "__defaults__")), ()
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # the cell is still empty
            yield (
                _Slot(name, partial(getattr, cell, "cell_contents"), partial(setattr, cell, "cell_contents")),
                (cell.cell_contents),
            )
    space = function.__globals__
    for name in sorted(_names(function.__code__) & space.keys()):
        yield _in(space, name), space[name]


def _in(space: dict[str, Any], name: str) -> _Slot:
    return _Slot(name, partial(space.get, name), partial(space.__setitem__, name))


def _names(code: CodeType) -> set[str]:
    """Return the names that code mentions, including the code nested in it."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _names(constant)
    return found


def _attributes(thing: Any) -> Iterator[_Slot]:
    """Yield the attributes that an object keeps in its own dictionary."""
    own = getattr(thing, "__dict__", None)
    if isinstance(own, dict):
        yield _Slot(type(thing).__name__, partial(_plain_parts, own), partial(_put_parts, own), many=True)


def _plain_parts(own: dict[str, Any]) -> dict[str, Any]:
    parts = {name: value for name, value in own.items() if isinstance(name, str) and not name.startswith("__")}
    return {name: value for name, value in parts.items() if not isinstance(value, FunctionType | type | ModuleType)}


def _put_parts(own: dict[str, Any], parts: dict[str, Any]) -> None:
    for name in _plain_parts(own).keys() - parts.keys():
        del own[name]
    own.update(parts)


def _may_change(held: Any, module: str) -> bool:
    if isinstance(held, ModuleType | type):
        return False
    return not callable(held) or getattr(type(held), "__module__", "") == module
