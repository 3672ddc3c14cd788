"""Open spouts and sinks by the scheme of their URI.

`file:PATH`, a bare path, `-`, `kafka://`, `wallaroo://` and `wallaroo+source://` are built in. A package adds others by
entry points in the groups `penstock.spouts` and `penstock.sinks`, named like the scheme. Each is a function of the URI
and of the name of the table or view.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from penstock.spout.envelope import Enveloped
from penstock.spout.errors import UnknownScheme, UriError
from penstock.spout.files.line_files import FileSpout
from penstock.spout.files.path_spouts import open_file
from penstock.spout.protocol import Spout
from penstock.spout.uri_parts import Uri
from penstock.spout.uris.kafka_uri import open_kafka
from penstock.spout.uris.wallaroo_uri import open_wallaroo, open_wallaroo_source

T = TypeVar("T")
_TOPIC = "topic"


class Registry(Generic[T]):
    """The functions that open URIs by scheme: built-in ones, then those of installed packages."""

    def __init__(self, kind: str, group: str, built_in: Mapping[str, Callable[[Uri, str], T]]) -> None:
        self.kind = kind
        self.group = group
        self._built_in = dict(built_in)

    def names(self) -> list[str]:
        """Return all known schemes."""
        return sorted({*self._built_in, *(point.name for point in self._points())})

    def open(self, uri: str, name: str) -> T:
        """Open a URI for the table or view of this name. Raise UnknownScheme if its scheme is not registered."""
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


def null_texts(uri: Uri) -> tuple[str, ...]:
    """Return the cell texts that mean null, from the comma-separated option `null`."""
    return tuple(uri.options["null"].split(",")) if "null" in uri.options else ()


def _file(uri: Uri, table: str) -> Spout:
    uri.only("follow", "format", "delimiter", "null", "again", "envelope")
    envelope = uri.options.get("envelope")
    if envelope not in (None, _TOPIC):
        raise UriError(uri.text, f"there is no envelope {envelope!r}", f"records that name their table are {_TOPIC}")
    spout = open_file(
        uri.rest,
        table,
        format=uri.options.get("format"),
        delimiter=uri.options.get("delimiter"),
        nulls=null_texts(uri),
        follow=uri.flag("follow"),
        again=uri.flag("again"),
    )
    if envelope is None:
        return spout
    if not (isinstance(spout, FileSpout) and spout.of_json):
        spout.close()
        raise UriError(uri.text, "records that name their table are JSON lines", "leave out envelope=, or convert it")
    return Enveloped(spout)


def _kafka(uri: Uri, table: str) -> Spout:
    spout, named = open_kafka(uri, table)
    return Enveloped(spout) if named else spout


SPOUTS: Registry[Spout] = Registry(
    "spout",
    "penstock.spouts",
    {"file": _file, "kafka": _kafka, "wallaroo": open_wallaroo, "wallaroo+source": open_wallaroo_source},
)
