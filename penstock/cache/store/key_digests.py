"""Keep for each database the number of its keys and the sum of their hashes, updated by every transaction.

A row's checksum detects damage in the row, but not the loss of the row. The digest detects the loss: it covers the keys
that were put and not deleted. The sum does not depend on the order, so a transaction only adds and subtracts.
All digests are one sealed row in `meta`. A transaction updates its part of that row:

    MessagePack of [names of databases, for each of them: keys i64 | sum of hashes u64 | whole u8]

A store without this row gets it with its next write. A database that already had rows becomes `whole` after a check has
counted them. An earlier version wrote the row as a map; the next write converts it to a list.
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

__all__ = ["DIGESTS", "Digest", "DigestChanges", "Digests", "digest_of"]

DIGESTS = b"digests"
_MASK = (1 << 64) - 1
_ENTRY = Struct("<qQ?")
_WIDTH = _ENTRY.size
_pack_into = _ENTRY.pack_into


class Digest(NamedTuple):
    """The digest of the keys of a database. If `whole` is true, it covers all keys that were ever put."""

    keys: int = 0
    total: int = 0
    whole: bool = True

    def plus(self, other: Digest) -> Digest:
        """Return the sum of two digests. The other one may be a difference."""
        return Digest(self.keys + other.keys, (self.total + other.total) & _MASK, self.whole and other.whole)

    def minus(self, other: Digest) -> Digest:
        """Return the difference: the digest that, added to the other one, gives this one."""
        return Digest(self.keys - other.keys, (self.total - other.total) & _MASK, self.whole)

    def like(self, other: Digest) -> bool:
        """Return whether both digests have the same count and sum."""
        return self[:2] == other[:2]


def digest_of(keys: Collection[bytes]) -> Digest:
    """Return the digest of distinct keys.

    >>> digest_of([b"Joe", b"Sue"]) == digest_of([b"Sue"]).plus(digest_of([b"Joe"]))
    True
    """
    return Digest(len(keys), sum(map(xxh3_64_intdigest, keys)) & _MASK)


_decode = msgspec.msgpack.Decoder(tuple[list[str], bytes] | dict[str, Digest]).decode


class Digests:
    """The digests of all databases by name, and the bytes of their row in `meta`.

    Without `payload` the bytes are computed.
    """

    __slots__ = ("_at", "by_db", "row")

    def __init__(self, by_db: dict[str, Digest], payload: bytes | None = None) -> None:
        self.by_db = by_db
        if payload is None:
            payload = msgspec.msgpack.encode([list(by_db), b"".join([_ENTRY.pack(*one) for one in by_db.values()])])
        self.row = bytearray(payload)
        self._at = {db: len(payload) - _WIDTH * n for n, db in zip(range(len(by_db), 0, -1), by_db, strict=True)}

    @classmethod
    def of_row(cls, row: bytes) -> Digests:
        """Decode a row of `meta`. Its damage is described here, because databases have no names for users yet."""
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
        """Return the bytes of the row with these changes, or None if the row has no entry for one of them."""
        payload, at = self.row.copy(), self._at
        for db, digest in changed.items():
            if db not in at:
                return None
            _pack_into(payload, at[db], *digest)
        return payload

    def change(self, changed: Mapping[str, Digest], payload: bytearray) -> None:
        """Apply these changes. `payload` is the row that contains them."""
        self.by_db.update(changed)
        self.row = payload


class DigestChanges:
    """The changes of one transaction to the digests `before`. A store without digests has None.

    `known` has the digest of each database at the start, or from the moment when the transaction began to count.
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
        """Start to count a database that had no digest."""
        self.known = {**self.known, db: digest}
        self._set[db] = digest

    def add(self, db: str, keys: Collection[bytes]) -> None:
        """Count keys that a database did not have before."""
        self._new.setdefault(db, []).extend(keys)

    def remove(self, db: str, keys: Collection[bytes]) -> None:
        """Subtract keys that were deleted from a database."""
        self._gone.setdefault(db, []).extend(keys)

    def clear(self, db: str) -> None:
        """Reset the digest of a database to that of no rows."""
        self._set[db] = Digest()
        self._new.pop(db, None)
        self._gone.pop(db, None)

    def complete(self, db: str, by: Digest) -> None:
        """Add a check's correction to the digest of a database, which is then whole."""
        self._set[db] = self._of(db).plus(by)._replace(whole=True)

    def digest(self, db: str) -> Digest:
        """Return the digest of a database after the changes so far. It is not whole if the digest is unknown."""
        if db not in self.known:
            return Digest(whole=False)
        return self._of(db).plus(digest_of(self._new.get(db, ()))).minus(digest_of(self._gone.get(db, ())))

    def _of(self, db: str) -> Digest:
        return self._set.get(db) or self.known.get(db) or Digest()

    def row(self) -> bytes | None:
        """Return the row of digests to write, or None if it stays unchanged.

        The row counts among the keys of `meta`.
        """
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
        """Return the digests of the store after the commit of their row."""
        if self._before is not None and self._payload is not None:
            self._before.change(self._set, self._payload)
        return self._before
