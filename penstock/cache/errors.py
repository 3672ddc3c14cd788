"""Every error that Penstock raises on purpose.

An error is typed by what went wrong, names the thing at fault, and ends with what to do next. Invariants:

- all of them are `PenstockError`s, so one `except` catches what is ours and nothing else;
- the constructor's arguments are the error's `args`, so that an error survives pickling between processes;
- what a program may want to look at is an attribute, never only a word of the message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from penstock.cache.messages import repr_of, shown

__all__ = [
    "BatchRejected",
    "Closed",
    "DefinitionChanged",
    "DefinitionError",
    "ForkedStore",
    "KeyKind",
    "KeyTooLong",
    "MissingExtra",
    "PenstockError",
    "ReadOnly",
    "RecordError",
    "StoreDamaged",
    "StoreFormat",
    "StoreFull",
    "StoreInUse",
    "StoreMissing",
    "StoreReplaced",
    "UnknownName",
    "ValueKind",
]

_SHOWN = 3


class PenstockError(Exception):
    """The base of all errors of this package."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr_of, self.args))})"


class DefinitionError(PenstockError):
    """A table, view, reducer or field expression that cannot be meant; the message says what to write instead."""


class UnknownName(PenstockError):
    """A name that no table or view has; `nearest` is the likeliest one that exists.

    >>> print(UnknownName("usres", "table", "users"))
    there is no table named 'usres'; did you mean 'users'?
    """

    def __init__(self, name: str, kind: str = "table or view", nearest: str | None = None) -> None:
        super().__init__(name, kind, nearest)
        self.name = name
        self.kind = kind
        self.nearest = nearest

    def __str__(self) -> str:
        what = f"there is no {self.kind} named {self.name!r}"
        if self.nearest is None:
            return f"{what}; App.names() lists those there are"
        return f"{what}; did you mean {self.nearest!r}?"


class RecordError(PenstockError):
    """A record that cannot be taken: it changes nothing, and is counted as rejected.

    >>> print(RecordError("no key: field 'id' is absent"))
    record rejected: no key: field 'id' is absent; correct it and put it again
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"record rejected: {self.reason}; correct it and put it again"


class Rejected(Protocol):
    """What `BatchRejected` needs to know of a rejection."""

    @property
    def table(self) -> str:
        """The table it was meant for."""
        ...

    @property
    def where(self) -> str:
        """Its place in the input."""
        ...

    @property
    def reason(self) -> str:
        """Why it was rejected."""
        ...


class BatchRejected(PenstockError):
    """Under `strict=True`: a batch was undone for these rejections; `accepted` documents before it are in.

    Of those before it a late one is not in, and one that was there already is.
    """

    def __init__(self, accepted: int, rejections: Sequence[Rejected]) -> None:
        super().__init__(accepted, rejections)
        self.accepted = accepted
        self.rejections = tuple(rejections)

    def __str__(self) -> str:
        shown = "; ".join(f"{r.table}, {r.where}: {r.reason}" for r in self.rejections[:_SHOWN])
        more = len(self.rejections) - _SHOWN
        if more > 0:
            shown += f"; and {more} more"
        return (
            f"the batch was undone, {self.accepted} documents before it are in: {shown}; correct these and put "
            "again what came after those, or put without strict=True to have them counted and left out"
        )


class StoreInUse(PenstockError):
    """Another writer has the store.

    >>> print(StoreInUse("state", "process 4711 since 2024-01-01 10:00:00 (app.py)"))
    the store at state is being written by process 4711 since 2024-01-01 10:00:00 (app.py); \
close that one, or open with readonly=True to read beside it
    """

    def __init__(self, path: str, holder: str) -> None:
        super().__init__(path, holder)
        self.path = path
        self.holder = holder

    def __str__(self) -> str:
        return (
            f"the store at {self.path} is being written by {self.holder}; "
            "close that one, or open with readonly=True to read beside it"
        )


class StoreFormat(PenstockError):
    """A store whose format this version does not read.

    >>> print(StoreFormat("state", 9, 1))
    the store at state has format 9 and this version of penstock reads format 1; \
open it with the version of penstock that wrote it, or fill a new path
    """

    def __init__(self, path: str, found: object, known: object) -> None:
        super().__init__(path, found, known)
        self.path = path
        self.found = found
        self.known = known

    def __str__(self) -> str:
        return (
            f"the store at {self.path} has format {self.found} and this version of penstock reads format "
            f"{self.known}; open it with the version of penstock that wrote it, or fill a new path"
        )


class StoreDamaged(PenstockError):
    """A row that is not what was written: its checksum or its form is wrong.

    `where` names store or database, `key` the row in it; `step` is what to do where it is not to go back to a copy.

    >>> print(StoreDamaged("state, segments, 17"))
    damaged row: state, segments, 17; restore the store from a copy, or load its documents into a new path
    >>> print(StoreDamaged("view 'names'", b"Joe", "run `penstock restate names`"))
    damaged row: view 'names', key 4a6f65; run `penstock restate names`
    """

    def __init__(self, where: str, key: bytes | None = None, step: str | None = None) -> None:
        super().__init__(where, key, step)
        self.where = where
        self.key = key
        self.step = step

    def __str__(self) -> str:
        key = "" if self.key is None else f", key {self.key.hex()}"
        step = self.step or "restore the store from a copy, or load its documents into a new path"
        return f"damaged row: {self.where}{key}; {step}"


class StoreFull(PenstockError):
    """No room on the disk, or in the map; the transaction at hand was undone.

    >>> print(StoreFull("state", "no space left on device"))
    the store at state can't grow: no space left on device; what was being written is undone; \
free some space and put it again
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"the store at {self.path} can't grow: {self.reason}; what was being written is undone; "
            "free some space and put it again"
        )


class StoreMissing(PenstockError):
    """Nothing to read at this path.

    >>> print(StoreMissing("state"))
    there is no store at state; check the path, or open it once without readonly=True to make it
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"there is no store at {self.path}; check the path, or open it once without readonly=True to make it"


class StoreReplaced(PenstockError):
    """The file of an open store was deleted, or another one has its name.

    >>> print(StoreReplaced("state"))
    the file data.mdb of the store at state was replaced or deleted while this process had it open, and the last put \
may be in the former file alone; close the store, open it again and put that again
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return (
            f"the file data.mdb of the store at {self.path} was replaced or deleted while this process had it open, "
            "and the last put may be in the former file alone; close the store, open it again and put that again"
        )


class ReadOnly(PenstockError):
    """A write through something that was opened to read.

    >>> print(ReadOnly("state"))
    the store at state is open read-only; open it without readonly=True to write
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"the store at {self.path} is open read-only; open it without readonly=True to write"


class Closed(PenstockError):
    """A use of something after its end.

    >>> print(Closed("the snapshot"))
    the snapshot is closed; use it inside its `with` block, or open another
    """

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"{self.what} is closed; use it inside its `with` block, or open another"


class ForkedStore(PenstockError):
    """A use, in a forked child, of a store that its parent opened.

    >>> print(ForkedStore("state", 4711))
    the store at state was opened by process 4711 and does not survive a fork; open it again in this process
    """

    def __init__(self, path: str, pid: int) -> None:
        super().__init__(path, pid)
        self.path = path
        self.pid = pid

    def __str__(self) -> str:
        return (
            f"the store at {self.path} was opened by process {self.pid} and does not survive a fork; "
            "open it again in this process"
        )


class MissingExtra(PenstockError):
    """An optional package that this call needs.

    >>> print(MissingExtra("pyarrow", "arrow"))
    this needs the package pyarrow; run `pip install 'penstock[arrow]'`
    """

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(package, extra)
        self.package = package
        self.extra = extra

    def __str__(self) -> str:
        return f"this needs the package {self.package}; run `pip install 'penstock[{self.extra}]'`"


class DefinitionChanged(PenstockError):
    """A definition that differs from the one under which the store was filled; a view that does can be `built` anew.

    >>> print(DefinitionChanged("users", "its key was 'id' and is 'name'"))
    the store was filled under another definition of 'users': its key was 'id' and is 'name'; \
take that definition back, give this one another name, or load into a new path
    >>> print(DefinitionChanged("revenue", "its key was 'country' and is 'city'", built=True))
    the store was filled under another definition of 'revenue': its key was 'country' and is 'city'; \
run `penstock migrate`, or open it with migrate="auto", to build it anew, or take that definition back
    """

    def __init__(self, name: str, difference: str, built: bool = False) -> None:
        super().__init__(name, difference, built)
        self.name = name
        self.difference = difference
        self.built = built

    def __str__(self) -> str:
        what = f"the store was filled under another definition of {self.name!r}: {self.difference}"
        if self.built:
            return (
                f'{what}; run `penstock migrate`, or open it with migrate="auto", to build it anew, or take that '
                "definition back"
            )
        return f"{what}; take that definition back, give this one another name, or load into a new path"


class KeyKind(PenstockError):
    """A value that no group and no document can be keyed by; `why` where its kind alone does not say it.

    >>> print(KeyKind({"a": 1}))
    {'a': 1} (dict) can't be a key; a key is null, a bool, an int, a float, text, bytes or a tuple of these
    """

    def __init__(self, value: object, why: str = "") -> None:
        super().__init__(value, why)
        self.value = value
        self.why = why

    def __str__(self) -> str:
        because = f": {self.why}" if self.why else ""
        return (
            f"{shown(self.value)} can't be a key{because}; "
            "a key is null, a bool, an int, a float, text, bytes or a tuple of these"
        )


class KeyTooLong(PenstockError):
    """A key whose encoding is longer than a store takes.

    >>> print(KeyTooLong(70000, 65536))
    a key of 70000 bytes is too long; key by at most 65536 bytes, such as a digest of it
    """

    def __init__(self, size: int, limit: int = 1 << 16) -> None:
        super().__init__(size, limit)
        self.size = size
        self.limit = limit

    def __str__(self) -> str:
        return f"a key of {self.size} bytes is too long; key by at most {self.limit} bytes, such as a digest of it"


class ValueKind(PenstockError):
    """A value that no document can hold; `path` is its dotted place in the document, empty for the whole of it.

    >>> print(ValueKind(1j, "a.b"))
    1j (complex) at 'a.b' can't be stored; a document holds null, bool, int, float, Decimal, text, bytes, \
and lists and maps (with text keys) of these
    """

    def __init__(self, value: object, path: str = "", why: str = "") -> None:
        super().__init__(value, path, why)
        self.value = value
        self.path = path
        self.why = why

    def __str__(self) -> str:
        place = f" at {self.path!r}" if self.path else ""
        because = f": {self.why}" if self.why else ""
        return (
            f"{shown(self.value)}{place} can't be stored{because}; a document holds null, bool, int, float, "
            "Decimal, text, bytes, and lists and maps (with text keys) of these"
        )
