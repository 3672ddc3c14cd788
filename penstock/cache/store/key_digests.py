"""For each database the number of its keys, and the sum of their hashes, kept with every transaction.

A row's checksum shows that the row is sound, and nothing in it shows that a row is gone. The sum does: it is what the
keys were that were put and not deleted. It does not depend on the order, so that a transaction adds and subtracts.
They are one sealed row in `meta`, in which a transaction changes the digests that it changed:

    MessagePack of [names of databases, for each of them: keys i64 | sum of hashes u64 | whole u8]

A store that was written without it gets it with its next write. A database that had rows before that is `whole` once a
check has counted them. Where the row is a map, as an earlier version wrote it, the next write makes a list of it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from struct import Struct
from typing import NamedTuple

import msgspec
from xxhash import xxh3_64_intdigest

from penstock.cache.encoding.checksum import seal, unseal
from penstock.cache.errors import StoreDamaged
from penstock.cache.store.damage import COPY
from penstock.cache.store.protocol import META

__all__ = ["DIGESTS", "Digest", "Digests", "Tally", "digest_of"]

DIGESTS = b"digests"
_MASK = (1 << 64) - 1
_ENTRY = Struct("<qQ?")
_WIDTH = _ENTRY.size
_pack_into = _ENTRY.pack_into


class Digest(NamedTuple):
    """The keys of a database; `whole` where all that were ever put are in it."""

    keys: int = 0
    total: int = 0
    whole: bool = True

    def plus(self, other: Digest) -> Digest:
        """The sum of two, where the other one may be a difference."""
        return Digest(self.keys + other.keys, (self.total + other.total) & _MASK, self.whole and other.whole)

    def minus(self, other: Digest) -> Digest:
        """What is to be added to the other one to give this one."""
        return Digest(self.keys - other.keys, (self.total - other.total) & _MASK, self.whole)

    def like(self, other: Digest) -> bool:
        """Whether the keys are the same."""
        return self[:2] == other[:2]


def digest_of(keys: Collection[bytes]) -> Digest:
    """The digest of these keys, which differ.

    >>> digest_of([b"Joe", b"Sue"]) == digest_of([b"Sue"]).plus(digest_of([b"Joe"]))
    True
    """
    return Digest(len(keys), sum(map(xxh3_64_intdigest, keys)) & _MASK)


_decode = msgspec.msgpack.Decoder(tuple[list[str], bytes] | dict[str, Digest]).decode


class Digests:
    """The digests of all databases by name, and the bytes of their row, which the name gives without `payload`."""

    __slots__ = ("_at", "by_db", "row")

    def __init__(self, by_db: dict[str, Digest], payload: bytes | None = None) -> None:
        self.by_db = by_db
        if payload is None:
            payload = msgspec.msgpack.encode([list(by_db), b"".join([_ENTRY.pack(*one) for one in by_db.values()])])
        self.row = bytearray(payload)
        self._at = {db: len(payload) - _WIDTH * n for n, db in zip(range(len(by_db), 0, -1), by_db, strict=True)}

    @classmethod
    def of_row(cls, row: bytes) -> Digests:
        """The digests that a row of `meta` holds. Damage is named here: no database has a name for users yet."""
        try:
            payload = unseal(DIGESTS, row, META)
            found = _decode(payload)
            if isinstance(found, dict):
                return cls(found)
            names, entries = found
            return cls({db: Digest(*_ENTRY.unpack_from(entries, _WIDTH * n)) for n, db in enumerate(names)}, payload)
        except (StoreDamaged, msgspec.MsgspecError):
            raise StoreDamaged(f"what the store says of itself, key {DIGESTS.decode()}", None, COPY) from None

    def payload(self, changed: Mapping[str, Digest]) -> bytearray | None:
        """The bytes of the row with these changes, None where they have no room for one of them."""
        payload, at = self.row.copy(), self._at
        for db, digest in changed.items():
            if db not in at:
                return None
            _pack_into(payload, at[db], *digest)
        return payload

    def change(self, changed: Mapping[str, Digest], payload: bytearray) -> None:
        """Make these changes, of which these are the bytes."""
        self.by_db.update(changed)
        self.row = payload


class Tally:
    """The changes of one transaction to the digests before it, which are None in a store without them.

    `known` has the digests of databases at the beginning, or where the transaction began to count them.
    """

    __slots__ = ("_before", "_gone", "_new", "_payload", "_set", "known")

    def __init__(self, before: Digests | None) -> None:
        self._before = before
        self.known: Mapping[str, Digest] = {} if before is None else before.by_db
        self._set: dict[str, Digest] = {}
        self._new: dict[str, list[bytes]] = {}
        self._gone: dict[str, list[bytes]] = {}
        self._payload: bytearray | None = None

    def begin(self, db: str, digest: Digest) -> None:
        """Begin with a database that had no digest so far."""
        self.known = {**self.known, db: digest}
        self._set[db] = digest

    def add(self, db: str, keys: Collection[bytes]) -> None:
        """These keys are new in a database."""
        self._new.setdefault(db, []).extend(keys)

    def remove(self, db: str, keys: Collection[bytes]) -> None:
        """These keys were there, and are no more."""
        self._gone.setdefault(db, []).extend(keys)

    def clear(self, db: str) -> None:
        """A database has no rows now."""
        self._set[db] = Digest()
        self._new.pop(db, None)
        self._gone.pop(db, None)

    def complete(self, db: str, by: Digest) -> None:
        """Correct a database by what a check has counted; it is whole then."""
        self._set[db] = self._of(db).plus(by)._replace(whole=True)

    def digest(self, db: str) -> Digest:
        """The digest of a database after the changes so far; it is not whole where none is known."""
        if db not in self.known:
            return Digest(whole=False)
        return self._of(db).plus(digest_of(self._new.get(db, ()))).minus(digest_of(self._gone.get(db, ())))

    def _of(self, db: str) -> Digest:
        return self._set.get(db) or self.known.get(db) or Digest()

    def row(self) -> bytes | None:
        """The row of the digests after it, None where it stays; it counts among the keys of `meta`."""
        if not (self._set or self._new or self._gone) or META not in self.known:
            return None
        if self._before is None:
            self.add(META, [DIGESTS])
        changed = self._set
        for db, keys in self._new.items():
            n, total, whole = self._of(db)
            changed[db] = Digest(n + len(keys), (total + sum(map(xxh3_64_intdigest, keys))) & _MASK, whole)
        for db, keys in self._gone.items():
            n, total, whole = self._of(db)
            changed[db] = Digest(n - len(keys), (total - sum(map(xxh3_64_intdigest, keys))) & _MASK, whole)
        payload = None if self._before is None else self._before.payload(changed)
        if payload is None:
            self._before = Digests({**self.known, **changed})
            payload = self._before.row
        self._payload = payload
        return seal(DIGESTS, bytes(payload))

    def committed(self) -> Digests | None:
        """The digests of the store, once its row is committed."""
        if self._before is not None and self._payload is not None:
            self._before.change(self._set, self._payload)
        return self._before
