"""Check the names of apps, tables and views, and suggest the nearest name for an unknown one.

Invariant: a name is ASCII letters, digits, "_", "-" and ".", so that it needs no quotes on a command line, in a file
name and in a topic.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import TypeVar

from penstock.cache import DefinitionError, UnknownName, key_text

_FOLDERS = (".", "..")  # in a path
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_T = TypeVar("_T")


def find(name: str, kind: str, among: Mapping[str, _T]) -> _T:
    """Return the definition with this name. Raise UnknownName, with the nearest name, if there is none.

    >>> find("users", "table", {"users": 1})
    1
    """
    if not isinstance(name, str):
        raise DefinitionError(f"a {kind} is looked up by its name, not by {key_text(name)}; write its name as text")
    if name in among:
        return among[name]
    raise UnknownName(name, kind, nearest(name, among))


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the most similar of the names, without regard to case. Return None if none is similar.

    >>> nearest("Usres", ["users", "orders"])
    'users'
    """
    by_lower = {known.lower(): known for known in names}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return by_lower[close[0]] if close else None


def check_name(kind: str, name: object) -> None:
    """Raise DefinitionError if an app, a table or a view can't have this name.

    >>> check_name("table", "web-users.v2")
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name in _FOLDERS:
        raise DefinitionError(
            f"{key_text(name)} can't name a{'n' if kind == 'app' else ''} {kind}; write 1 to 100 of the letters "
            "a to z and A to Z, digits, '_', '-' and '.', but not '.' or '..' alone"
        )


def check_version(view: str, version: object) -> str | None:
    """Check and return the version that was written for a view's code.

    >>> check_version("namecount", "2")
    '2'
    """
    if version is not None and (not isinstance(version, str) or not version):
        raise DefinitionError(
            f"version= of view {view!r} is {key_text(version)}; write text, such as '2', or leave it out"
        )
    return version


def check_flag(view: str, name: str, given: object) -> bool:
    """Check and return a boolean argument of a view.

    >>> check_flag("namecount", "sources", True)
    True
    """
    if not isinstance(given, bool):
        raise DefinitionError(f"{name}= of view {view!r} is {key_text(given)}; write True or False")
    return given


def called_view(name: object) -> str:
    """Return the name under which errors mention a view that is being defined."""
    if name is not None and not isinstance(name, str):
        what = getattr(name, "__name__", key_text(name))
        raise DefinitionError(
            f"view() got {what} where its name goes; write .view('name', key=…, reduce=…), "
            "or decorate a function with @….view(reduce=…)"
        )
    return name or "(named after its function)"
