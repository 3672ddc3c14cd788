"""Every error that Penstock raises on purpose.

Each kind of fault has its own type. A message names the object at fault and ends with the next step. Invariants:

- all of them are `PenstockError`s, so one `except` catches all errors of this package and no others;
- the constructor's arguments are the error's `args`, so that an error survives pickling between processes;
- each detail that a program may need is an attribute, not only a word of the message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from penstock.cache.messages import repr_of, value_text

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
    """A table, view, reducer or field expression is invalid. The message names a valid form."""


class UnknownName(PenstockError):
    """No table or view has this name. `nearest` is the most similar existing name.

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
    """A table can't accept a record. The record changes nothing and is counted as rejected.

    >>> print(RecordError("no key: field 'id' is absent"))
    record rejected: no key: field 'id' is absent; correct it and put it again
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"record rejected: {self.reason}; correct it and put it again"


class Rejected(Protocol):
    """The fields of a rejection that `BatchRejected` shows."""

    @property
    def table(self) -> str:
        """The table of the rejected record."""
        ...

    @property
    def where(self) -> str:
        """The record's place in the input."""
        ...

    @property
    def reason(self) -> str:
        """The reason for the rejection."""
        ...


class BatchRejected(PenstockError):
    """A batch under `strict=True` was undone because of these rejections. `accepted` documents before it stay written.

    `accepted` leaves out late records, but counts documents that were already stored.
    """

    def __init__(self, accepted: int, rejections: Sequence[Rejected]) -> None:
        super().__init__(accepted, rejections)
        self.accepted = accepted
        self.rejections = tuple(rejections)

    def __str__(self) -> str:
        text = "; ".join(f"{r.table}, {r.where}: {r.reason}" for r in self.rejections[:_SHOWN])
        more = len(self.rejections) - _SHOWN
        if more > 0:
            text += f"; and {more} more"
        return (
            f"the batch was undone, {self.accepted} documents before it are in: {text}; correct these and put "
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
    """This version can't read the format of the store.

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
    """A row has a wrong checksum or an invalid form, so it differs from the row that was written.

    `where` names the store or database, `key` the row. `step` is the next step if it is not to restore a copy.

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
    """The disk or the LMDB map has no room. The transaction was undone.

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
    """No store exists at this path.

    >>> print(StoreMissing("state"))
    there is no store at state; check the path, or open it once without readonly=True to make it
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"there is no store at {self.path}; check the path, or open it once without readonly=True to make it"


class StoreReplaced(PenstockError):
    """The file of an open store was deleted, or another file replaced it.

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
    """A write was tried on a store that is open read-only.

    >>> print(ReadOnly("state"))
    the store at state is open read-only; open it without readonly=True to write
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"the store at {self.path} is open read-only; open it without readonly=True to write"


class Closed(PenstockError):
    """An object was used after it was closed.

    >>> print(Closed("the snapshot"))
    the snapshot is closed; use it inside its `with` block, or open another
    """

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"{self.what} is closed; use it inside its `with` block, or open another"


class ForkedStore(PenstockError):
    """A forked child process used a store that its parent had opened.

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
    """The call needs an optional package that is not installed.

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
    """A definition differs from the one in the store. If `built` is true, the view can be built again.

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
    """A value can't be the key of a group or document. `why` gives the reason if the type alone does not.

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
            f"{value_text(self.value)} can't be a key{because}; "
            "a key is null, a bool, an int, a float, text, bytes or a tuple of these"
        )


class KeyTooLong(PenstockError):
    """The encoding of a key is longer than a store allows.

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
    """A document can't hold this value. `path` is its dotted path in the document, empty for the whole document.

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
            f"{value_text(self.value)}{place} can't be stored{because}; a document holds null, bool, int, float, "
            "Decimal, text, bytes, and lists and maps (with text keys) of these"
        )
