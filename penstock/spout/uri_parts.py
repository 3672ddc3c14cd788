"""Split URIs into scheme, path and options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote

from penstock.spout.errors import UriError

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+(?=:)")  # a single letter before a colon is a drive of other systems
_TRUE, _FALSE = {"1", "yes", "true", ""}, {"0", "no", "false"}


@dataclass(frozen=True, slots=True)
class Uri:
    """The parts of a URI. `rest` is the text between the scheme and the options.

    >>> Uri.parse("file:logs/a.jsonl?follow=1")
    Uri(text='file:logs/a.jsonl?follow=1', scheme='file', rest='logs/a.jsonl', options={'follow': '1'})
    >>> Uri.parse("logs/a.jsonl").scheme, Uri.parse("-").rest
    ('file', '-')
    """

    text: str
    scheme: str
    rest: str
    options: Mapping[str, str]

    @classmethod
    def parse(cls, text: str) -> Uri:
        """Split a text. A text without a scheme is a path, with any characters."""
        found = _SCHEME.match(text)
        if found is None:
            return cls(text, "file", text, {})
        rest, _, query = text[found.end() + 1 :].partition("?")
        options = dict(parse_qsl(query, keep_blank_values=True))
        if found[0] == "file":
            rest = unquote(rest.removeprefix("//localhost") if rest.startswith("//localhost/") else rest)
            rest = rest.removeprefix("//") if rest.startswith("///") else rest
        return cls(text, found[0], rest, options)

    def only(self, *known: str) -> None:
        """Raise UriError if there is an option of another name."""
        for name in self.options:
            if name not in known:
                hint = f"the options are {', '.join(known)}" if known else "it takes no options"
                raise UriError(self.text, f"there is no option {name!r}", hint)

    def one_of(self, name: str, known: tuple[str, ...]) -> str | None:
        """Return the value of an option, or None. Raise UriError if it is not one of the known values."""
        value = self.options.get(name)
        if value is not None and value not in known:
            raise UriError(self.text, f"there is no {name}={value}", f"it is one of {', '.join(known)}")
        return value

    def flag(self, name: str) -> bool:
        """Return whether an option is on. Raise UriError if its value is neither on nor off."""
        value = self.options.get(name, "0").lower()
        if value not in _TRUE | _FALSE:
            raise UriError(self.text, f"{name}={value} is neither on nor off", f"write {name}=1 or {name}=0")
        return value in _TRUE
