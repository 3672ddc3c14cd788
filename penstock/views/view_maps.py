"""The map of a view, by fields or by a function, and the reducers that fold its emissions.

Invariants:

- a `FieldMap` is plain data: its description is enough to derive a document's emission again, even without the app;
- the path of a group part, a value or a reducer is resolved once, here. Nodes only look up paths.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from penstock.cache import DefinitionError, key_text
from penstock.views.document_paths import parse_path
from penstock.views.field_expressions import Field, Where, as_where, where_from
from penstock.views.reducer_protocols import Path, Reducer

MapFunction = Callable[[Any], Iterable[Any] | None]
Rereduce = Callable[[list[Any], bool], Any] | Callable[[list[Any] | None, list[Any], bool], Any]
Reduce = Reducer | Rereduce | Mapping[str, Reducer | Rereduce]

_FIELD_NAME = 100
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Key:
    """The key of documents or groups: one path (`single`), or a tuple of several. Without paths it is the group ().

    >>> Key.of("address.city", "key=")
    Key(paths=(('address', 'city'),), single=True)
    >>> Key.of(("country", "day"), "key=")
    Key(paths=(('country',), ('day',)), single=False)
    """

    paths: tuple[Path, ...]
    single: bool

    @classmethod
    def of(cls, key: object, what: str) -> Key:
        """Parse a key that was written as a path or a tuple of paths. `what` names the argument in the error."""
        if isinstance(key, tuple):
            return cls(tuple(parse_path(part, f"part {i + 1} of {what}") for i, part in enumerate(key)), False)
        if not isinstance(key, str):
            raise DefinitionError(
                f"{what} is {key_text(key)}; write a path such as 'name', or a tuple of paths such "
                "as ('country', 'day')"
            )
        return cls((parse_path(key, what),), True)

    def describe(self) -> dict[str, object]:
        """Return the key as plain data."""
        return {"paths": [list(path) for path in self.paths], "single": self.single}


@dataclass(frozen=True, slots=True)
class FieldMap:
    """A map by fields: each document that `where` selects emits the group at `key`.

    The value is at `value`, or without that it is the document.
    """

    key: Key
    value: Path | None = None
    where: Where | None = None

    def path_of(self, field: Path | None) -> Path | None:
        """Return the path in the document for a reducer's field. None means that it reads no value.

        >>> FieldMap(Key.of("city", "key="), ("order",)).path_of(("amount",))
        ('order', 'amount')
        """
        if self.value is None:
            return field
        return self.value + (field or ())

    def describe(self) -> dict[str, object]:
        """Return the map as plain data, which `field_map_from` reads."""
        return {
            "by": "fields",
            "key": self.key.describe(),
            "value": None if self.value is None else list(self.value),
            "where": None if self.where is None else self.where.describe(),
        }


def field_map_from(description: Mapping[str, Any]) -> FieldMap:
    """Return the field map with this description.

    >>> by_city = FieldMap(Key.of("city", "key="), ("amount",))
    >>> field_map_from(by_city.describe()) == by_city
    True
    """
    key, value, where = description["key"], description["value"], description["where"]
    return FieldMap(
        Key(tuple(tuple(path) for path in key["paths"]), key["single"]),
        None if value is None else tuple(value),
        None if where is None else where_from(where),
    )


class PlainMap(ABC):
    """A map that is a function of a document, and is described by plain data and not by code."""

    @abstractmethod
    def __call__(self, document: Any) -> Iterable[Any] | None:
        """Return the groups and values of a document."""

    @abstractmethod
    def describe(self) -> dict[str, object]:
        """Return the map as plain data."""


@dataclass(frozen=True, slots=True)
class FunctionMap:
    """A map by a function: each document emits the groups, or pairs (group, value), that the function yields."""

    function: MapFunction

    def describe(self) -> dict[str, object]:
        """Return the map as plain data: the function's name without its module, which in a script is `__main__`."""
        function = self.function
        if isinstance(function, PlainMap):
            return function.describe()
        return {"by": "function", "function": getattr(function, "__name__", type(function).__name__)}


class ReduceFunction:
    """A function in place of a reducer, as in CouchDB: of (values, rereduce), or with `keys` of (keys, values,
    rereduce).

    Two are equal if they have the same function.
    """

    __slots__ = ("function", "keys")

    def __init__(self, function: Callable[..., Any], keys: bool) -> None:
        self.function = function
        self.keys = keys

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReduceFunction) and self.function is other.function

    def __hash__(self) -> int:
        return id(self.function)

    @property
    def field(self) -> None:
        """None: it reads the value itself."""

    @property
    def code(self) -> Callable[..., Any]:
        """The function."""
        return self.function

    def describe(self) -> dict[str, object]:
        """Return plain data: the function's name, and whether it takes keys."""
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return {"reducer": "function", "field": None, "function": name, "keys": self.keys}


def make_field_map(view: str, key: object, value: object, where: object) -> FieldMap:
    """Create the field map of a view from its arguments."""
    return FieldMap(
        Key.of(key, f"key= of view {view!r}"),
        None if value is None else parse_path(value, f"value= of view {view!r}"),
        None if where is None else as_where(where),
    )


def make_function_map(function: object) -> FunctionMap:
    """Create the map of a function, which must accept one document and yield."""
    if not _is_function(function):
        raise DefinitionError(
            f"{key_text(function)} is no function; decorate one that takes a document and yields groups"
        )
    name = getattr(function, "__name__", repr(function))
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise DefinitionError(f"the map {name!r} is async; write it with plain `def`, since a map waits for nothing")
    if not _takes_one(function):
        raise DefinitionError(f"the map {name!r} can't be called with a document alone; give it one parameter")
    return FunctionMap(function)


def _is_function(function: object) -> TypeGuard[MapFunction]:
    return callable(function) and not isinstance(function, Field | Where)


def _takes_one(function: MapFunction) -> bool:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a built-in may not tell its parameters
        return True
    try:
        signature.bind(None)
    except TypeError:
        return False
    return True


def make_reducers(view: str, reduce: object) -> tuple[tuple[Reducer | ReduceFunction, ...], tuple[str, ...] | None]:
    """Create the reducers of a view, and the field names of its rows. The names are None for a single reducer.

    Without a reducer the view is an index of its values.
    """
    if reduce is None:
        return (), None
    if not isinstance(reduce, Mapping):
        return (_reducer(f"reduce= of view {view!r}", reduce),), None
    if not reduce:
        raise DefinitionError(f"reduce= of view {view!r} is empty; name a reducer: {{'n': ps.count()}}")
    for name in reduce:
        if not isinstance(name, str) or not name or "." in name or len(name) > _FIELD_NAME or not _is_utf8(name):
            raise DefinitionError(
                f"reduce= of view {view!r} has a field named {name!r}; name it by text without dots, "
                f"of 1 to {_FIELD_NAME} characters"
            )
    return tuple(_reducer(f"field {name!r} of view {view!r}", r) for name, r in reduce.items()), tuple(reduce)


def _reducer(what: str, reducer: object) -> Reducer | ReduceFunction:
    if _is_reducer(reducer):
        return reducer
    if reducer is None:
        raise DefinitionError(f"{what} has no reducer; give one, such as ps.count()")
    if callable(reducer):
        keys = None if isinstance(reducer, type) else _takes_keys(reducer)
        name = getattr(reducer, "__name__", repr(reducer))
        if keys is None:
            raise DefinitionError(
                f"{what} is the function {name}; call a reducer of this package, such as ps.count(), or give a "
                "function of (values, rereduce) or (keys, values, rereduce)"
            )
        if inspect.iscoroutinefunction(reducer) or inspect.isgeneratorfunction(reducer):
            raise DefinitionError(f"{what} is {name}, which is no plain function; write it with `def` and `return`")
        return ReduceFunction(reducer, keys)
    raise DefinitionError(
        f"{what} is {key_text(reducer)}; give a reducer such as ps.count(), or a dict of them, {{'n': ps.count()}}"
    )


def _takes_keys(function: Callable[..., Any]) -> bool | None:
    """Return whether a function takes keys, values and rereduce, or only values and rereduce. None if neither fits.

    A parameter with a default is not meant to be filled, unless its name is rereduce.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a built-in may not tell its parameters
        return None
    given = [p for p in parameters if p.kind in _POSITIONAL]
    if len(given) not in (2, 3) or any(p.default is p.empty for p in parameters if p not in given):
        return None
    if any(p.default is not p.empty and p.name != "rereduce" for p in given):
        return None
    return len(given) == 3


def _is_reducer(reducer: object) -> TypeGuard[Reducer]:
    """Return whether it is a reducer. A class of reducers also has these methods, but is none itself."""
    return not isinstance(reducer, type) and all(
        hasattr(reducer, name) for name in ("field", "cells", "result", "describe")
    )


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
