"""Check the arguments of public calls: one rule per parameter name, and one error for a value of the wrong kind.

A public method gets the decorator `checked` if its arguments would otherwise reach deep code unchecked. Invariants:

- a parameter name has the same rule in every call that has the parameter;
- a rule returns the value that the call uses from then on: a NumPy int becomes an int.
"""

from __future__ import annotations

import inspect
import operator
import os
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

from penstock.cache.errors import DefinitionError
from penstock.cache.messages import value_text

_P = ParamSpec("_P")
_T = TypeVar("_T")
_FIRST, _LAST = -(1 << 63), (1 << 63) - 1


class ArgumentKind(DefinitionError):
    """A call got an argument of the wrong kind. `name` is the parameter.

    >>> print(ArgumentKind("limit", "ten", "give a number, 0 or more"))
    limit= is 'ten' (str); give a number, 0 or more
    """

    def __init__(self, name: str, value: object, advice: str) -> None:
        super().__init__(name, value, advice)
        self.name = name
        self.value = value
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.name}= is {value_text(self.value)}; {self.advice}"


Rule = Callable[[str, Any], Any]


def text(name: str, value: Any) -> str:
    """Return a text that can be stored: a str that UTF-8 can encode. Raise ArgumentKind for any other value.

    >>> text("source", "orders:0")
    'orders:0'
    """
    if not isinstance(value, str):
        raise ArgumentKind(name, value, "give a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ArgumentKind(name, value, "give a text without half of a surrogate pair") from None
    return value


def _flag(name: str, value: Any) -> bool:
    if type(value).__name__ not in ("bool", "bool_"):
        raise ArgumentKind(name, value, "give True or False")
    return bool(value)


def _number(least: int) -> Rule:
    def number(name: str, value: Any) -> int:
        advice = f"give an int, {least} or more"
        if isinstance(value, bool):
            raise ArgumentKind(name, value, advice)
        try:
            whole = operator.index(value)
        except TypeError:
            raise ArgumentKind(name, value, advice) from None
        if not least <= whole <= _LAST:
            raise ArgumentKind(name, value, advice if whole < least else f"give an int of at most {_LAST:,}")
        return whole

    return number


def _message(arguments: str) -> Rule:
    """Return a rule for callbacks: the value must be a function that accepts these arguments."""

    def checked(name: str, value: Any) -> Any:
        try:
            assert callable(value)
            assert not isinstance(value, type)
            inspect.signature(value).bind(*arguments.split(", "))
        except (AssertionError, TypeError, ValueError):
            raise ArgumentKind(name, value, f"give a function ({arguments}), or leave it out") from None
        return value

    return checked


def _position(name: str, value: Any) -> Any:
    parts = value if isinstance(value, list | tuple) else [value]
    if not parts or not all(type(part) is int and -_LAST <= part <= _LAST for part in parts):
        raise ArgumentKind(name, value, "write a position, as snapshots and changes have them")
    return value


def _path(name: str, value: Any) -> str:
    try:
        found = os.fspath(value)
    except TypeError:
        found = None
    if not isinstance(found, str) or not found or "\0" in found:
        raise ArgumentKind(name, value, "give the path of a folder")
    return text(name, found)


def _iterable(name: str, value: Any) -> Any:
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise ArgumentKind(name, value, "give a list or another iterable")
    return value


def _ids(name: str, value: Any) -> Any:
    if isinstance(value, str):
        return text(name, value)
    if not isinstance(value, Sequence) or not all(isinstance(one, str) for one in value):
        raise ArgumentKind(name, value, "give an id, or a list of ids")
    return [text(name, one) for one in value]


def _optional(rule: Rule) -> Rule:
    return lambda name, value: None if value is None else rule(name, value)


_FLAGS = (
    "strict",
    "fix",
    "follow",
    "initial",
    "early",
    "reverse",
    "resting",
    "readonly",
    "listen",
    "processes",
    "force",
)
_RULES: dict[str, Rule] = {
    **dict.fromkeys(("name", "table", "source", "view", "views"), text),
    **dict.fromkeys(_FLAGS, _flag),
    **dict.fromkeys(("limit", "changes", "level", "resume", "memory"), _number(0)),
    "batch": _number(1),
    "partitions": _number(_FIRST),  # the store checks the largest possible number
    **dict.fromkeys(("since", "until"), _position),
    **dict.fromkeys(("records", "groups", "keys"), _iterable),
    "progress": _message("done, total"),
    "tell": _message("what, done, total"),
    **dict.fromkeys(("folder", "path", "target", "copy"), _path),
    "ids": _ids,
}


def checked(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Wrap a function so that its arguments are checked by their rules. An argument without a rule is passed unchanged.

    >>> @checked
    ... def rows(view, limit=None):
    ...     return view, limit
    >>> rows("names", limit=3)
    ('names', 3)
    >>> rows("names", limit=-1)
    Traceback (most recent call last):
    penstock.cache.arguments.ArgumentKind: limit= is -1 (int); give an int, 0 or more
    """
    parameters = inspect.signature(function).parameters.values()
    named = {p.name: _rule_of(p) for p in parameters}
    placed = [(p.name, named[p.name]) for p in parameters if p.kind is not p.KEYWORD_ONLY]
    rest = next(((p.name, named[p.name]) for p in parameters if p.kind is p.VAR_POSITIONAL), None)
    inner: Callable[..., _T] = function

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        own = list(args)
        for i, value in enumerate(args):
            name, rule = placed[i] if i < len(placed) else rest or ("", None)
            if rule is not None:
                own[i] = rule(name, value)
        for name, value in kwargs.items():
            rule = named.get(name)
            if rule is not None:
                kwargs[name] = rule(name, value)
        return inner(*own, **kwargs)

    return cast(Callable[_P, _T], call)


def _rule_of(parameter: inspect.Parameter) -> Rule | None:
    """Return the rule of a parameter, or None. If the default or the annotation allows None, the rule allows it too."""
    is_tell = parameter.name == "progress" and str(parameter.annotation).startswith("Tell")
    rule = _RULES.get("tell" if is_tell else parameter.name)
    if rule is not None and (parameter.default is None or str(parameter.annotation).endswith("| None")):
        return _optional(rule)
    return rule
