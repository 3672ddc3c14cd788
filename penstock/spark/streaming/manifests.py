"""The header and the manifests of a state: which files are its partitions after each batch.

A manifest is the commit of a batch: one file, created if it is absent. Invariants:

- the header never changes: it has the number of partitions, and the seed that places keys in them;
- manifest b names files that are complete and never change, made from manifest b-1 and the offsets of batch b;
- of two drivers, the one that creates a manifest has committed the batch. The other one ends.
"""

from __future__ import annotations

import secrets
import uuid

import msgspec

from penstock.cache import DefinitionError, PenstockError
from penstock.mapreduce import KeyRanges, even_starts
from penstock.partitions import LocalStateFiles, StateFileMissing, StateFiles, StateVersion

__all__ = [
    "FORMAT",
    "Manifest",
    "NoState",
    "PartitionCounts",
    "SparkState",
    "StateHeader",
    "StateOfAnotherStream",
    "files_of",
]

FORMAT = 1
_HEADER = "state.json"
_MANIFESTS = "manifest"
_RUNS = "run"


class NoState(PenstockError):
    """There is no state at a URI.

    >>> print(NoState("shop"))
    there is no state at shop; `penstock run --on spark --state shop --from TABLE=URI` makes one
    """

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.uri = uri

    def __str__(self) -> str:
        return (
            f"there is no state at {self.uri}; `penstock run --on spark --state {self.uri} --from TABLE=URI` makes one"
        )


class StateOfAnotherStream(PenstockError):
    """The manifests of a state do not belong to the checkpoint of this stream.

    >>> print(StateOfAnotherStream("shop", "batch 3 is of query ab"))
    the state shop and Spark's checkpoint do not belong together: batch 3 is of query ab; keep both or delete both
    """

    def __init__(self, uri: str, reason: str) -> None:
        super().__init__(uri, reason)
        self.uri, self.reason = uri, reason

    def __str__(self) -> str:
        return (
            f"the state {self.uri} and Spark's checkpoint do not belong together: {self.reason}; "
            "keep both or delete both"
        )


class StateHeader(msgspec.Struct, frozen=True):
    """The header of a state."""

    format: int
    state: str
    app: str
    seed: int
    starts: list[str]

    def ranges(self) -> KeyRanges:
        """Return the ranges, which assign keys to partitions."""
        return KeyRanges([int(start, 16) for start in self.starts], self.seed)


class PartitionCounts(msgspec.Struct, frozen=True):
    """A partition after a batch: its state version, its position, and the host of its process."""

    version: StateVersion
    position: int = 0
    host: str = ""


class Manifest(msgspec.Struct, frozen=True):
    """The state after a batch, and the driver that committed it.

    `counts` has the records of the batch: applied, equal, late, held, rejected. `kinds` are the kinds of ts by table.
    """

    batch: int
    state: str
    query: str
    run: int
    partitions: list[PartitionCounts]
    kinds: dict[str, str] = {}
    sources: dict[str, int] = {}
    counts: list[int] = []
    seconds: float = 0.0


def files_of(uri: str) -> StateFiles:
    """Return the files of a state. Raise DefinitionError for a scheme that this release does not support."""
    scheme, separator, rest = uri.partition("://")
    if separator and scheme != "file":
        raise DefinitionError(
            f"--state {uri}: a state on {scheme}: is not supported; name a folder that all hosts mount, or file://DIR"
        )
    if not separator and uri.startswith("file:"):
        rest = uri[len("file:") :]
    return LocalStateFiles(rest if separator or uri.startswith("file:") else uri)


class SparkState:
    """A state at a URI."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.files = files_of(uri)

    def header(self) -> StateHeader | None:
        """Return the header; None if there is no state."""
        try:
            data = b"".join(self.files.read(_HEADER))
        except StateFileMissing:
            return None
        header = msgspec.json.decode(data, type=StateHeader)
        if header.format != FORMAT:
            raise PenstockError(
                f"the state {self.uri} has format {header.format}, and this penstock knows {FORMAT}; "
                "run the release that wrote it"
            )
        return header

    def opened(self, app: str, partitions: int | None) -> StateHeader:
        """Return the header, and write it if there is no state. Raise DefinitionError for another app or number."""
        header = self.header()
        if header is None:
            starts = [f"{start:016x}" for start in even_starts(partitions or 16)]
            fresh = StateHeader(FORMAT, uuid.uuid4().hex, app, secrets.randbits(63), starts)
            self.files.create(_HEADER, msgspec.json.format(msgspec.json.encode(fresh)) + b"\n")
            header = self.header()
            assert header is not None, "it was created by this process or by another one"
        if header.app != app:
            raise DefinitionError(
                f"the state {self.uri} is of the app {header.app!r}, and this is {app!r}; use another one"
            )
        if partitions not in (None, len(header.starts)):
            raise DefinitionError(
                f"the state {self.uri} has {len(header.starts)} partitions, and that number is fixed; leave out "
                f"partitions={partitions}, or restore it, repartition the store, and make another state of it"
            )
        return header

    def manifest(self, batch: int) -> Manifest | None:
        """Return the manifest of a batch; None if there is none."""
        try:
            data = b"".join(self.files.read(_name(batch)))
        except StateFileMissing:
            return None
        return msgspec.json.decode(data, type=Manifest)

    def newest(self) -> Manifest | None:
        """Return the newest manifest; None if there is none."""
        batches = self.batches()
        return self.manifest(batches[-1]) if batches else None

    def batches(self) -> list[int]:
        """Return the batches whose manifests are kept, in order."""
        return [int(name.partition(".")[0]) for name in self.files.names(_MANIFESTS)]

    def commit(self, manifest: Manifest) -> bool:
        """Commit a batch. Return False if another driver has committed it."""
        return self.files.create(_name(manifest.batch), msgspec.json.encode(manifest) + b"\n")

    def forget(self, batch: int) -> None:
        """Delete the manifest of a batch."""
        self.files.delete(_name(batch))

    def begin_run(self) -> int:
        """Return the number of a new driver run. It is greater than those of all earlier ones."""
        number = max((int(name) for name in self.files.names(_RUNS)), default=0)
        while True:
            number += 1
            if self.files.create(f"{_RUNS}/{number}", b""):
                for name in self.files.names(_RUNS):
                    if int(name) < number - 1:
                        self.files.delete(f"{_RUNS}/{name}")
                return number


def _name(batch: int) -> str:
    return f"{_MANIFESTS}/{batch:012}.json"
