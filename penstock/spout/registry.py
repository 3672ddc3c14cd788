"""Names of URIs: what before the colon says who reads or writes the rest.

`file:PATH`, a bare path and `-` are built in; a package brings others by entry points in the groups `penstock.spouts`
and `penstock.sinks`, named like the scheme, each a function of the URI and of the table or view it is for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar
from urllib.parse import parse_qsl, unquote

from penstock.spout.envelope import Enveloped
from penstock.spout.errors import UnknownScheme, UriError
from penstock.spout.files import FileSpout
from penstock.spout.opening import open_file
from penstock.spout.protocols import Spout

T = TypeVar("T")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+(?=:)")  # one letter and a colon is a path elsewhere
_TOPIC = "topic"
_TRUE, _FALSE = {"1", "yes", "true", ""}, {"0", "no", "false"}


@dataclass(frozen=True, slots=True)
class Uri:
    """A URI in its parts; `rest` stands between the scheme and the options, as it was written.

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
        """The parts of a text; a text without a scheme is a path, whatever stands in it."""
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
        """UriError if there is an option of another name."""
        for name in self.options:
            if name not in known:
                there = f"the options are {', '.join(known)}" if known else "it takes no options"
                raise UriError(self.text, f"there is no option {name!r}", there)

    def flag(self, name: str) -> bool:
        """Whether an option is on."""
        value = self.options.get(name, "0").lower()
        if value not in _TRUE | _FALSE:
            raise UriError(self.text, f"{name}={value} is neither on nor off", f"write {name}=1 or {name}=0")
        return value in _TRUE


class Registry(Generic[T]):
    """Who serves a scheme: what is built in, else what an installed package brings."""

    def __init__(self, kind: str, group: str, built_in: Mapping[str, Callable[[Uri, str], T]]) -> None:
        self.kind = kind
        self.group = group
        self._built_in = dict(built_in)

    def names(self) -> list[str]:
        """All schemes that there are."""
        return sorted({*self._built_in, *(point.name for point in self._points())})

    def open(self, uri: str, name: str) -> T:
        """What a URI means for the table or view of this name."""
        parsed = Uri.parse(uri)
        built_in = self._built_in.get(parsed.scheme)
        if built_in is not None:
            return built_in(parsed, name)
        for point in self._points():
            if point.name == parsed.scheme:
                made: T = point.load()(parsed, name)
                return made
        raise UnknownScheme(parsed.scheme, self.kind, self.names())

    def _points(self) -> list[EntryPoint]:
        return list(entry_points(group=self.group))


def _file(uri: Uri, table: str) -> Spout:
    uri.only("follow", "format", "delimiter", "again", "envelope")
    envelope = uri.options.get("envelope")
    if envelope not in (None, _TOPIC):
        raise UriError(uri.text, f"there is no envelope {envelope!r}", f"records that name their table are {_TOPIC}")
    spout = open_file(
        uri.rest,
        table,
        format=uri.options.get("format"),
        delimiter=uri.options.get("delimiter"),
        follow=uri.flag("follow"),
        again=uri.flag("again"),
    )
    if envelope is None:
        return spout
    if not (isinstance(spout, FileSpout) and spout.of_json):
        spout.close()
        raise UriError(uri.text, "records that name their table are JSON lines", "leave out envelope=, or convert it")
    return Enveloped(spout)


SPOUTS: Registry[Spout] = Registry("spout", "penstock.spouts", {"file": _file})
