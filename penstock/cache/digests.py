"""For each database the number of its keys, and the sum of their hashes, kept with every transaction.

A row's checksum shows that the row is sound, and nothing in it shows that a row is gone. The sum does: it is what the
keys were that were put and not deleted. It does not depend on the order, so that a transaction adds and subtracts.
They are one sealed row in `meta`. A store that was written without it gets it with its next write. A database that had
rows before that is `whole` once a check has counted them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import msgspec
from xxhash import xxh3_64_intdigest

from penstock.cache.errors import StoreDamaged
from penstock.cache.naming import COPY
from penstock.cache.seal import seal, unseal
from penstock.cache.store import META

__all__ = ["DIGESTS", "Digest", "Digests", "Tally", "decode_digests", "digest_of"]

DIGESTS = b"digests"
_MASK = (1 << 64) - 1


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


Digests = Mapping[str, Digest]
_decode = msgspec.msgpack.Decoder(dict[str, Digest]).decode


def digest_of(keys: Collection[bytes]) -> Digest:
    """The digest of these keys, which differ.

    >>> digest_of([b"Joe", b"Sue"]) == digest_of([b"Sue"]).plus(digest_of([b"Joe"]))
    True
    """
    return Digest(len(keys), sum(map(xxh3_64_intdigest, keys)) & _MASK)


def decode_digests(row: bytes) -> dict[str, Digest]:
    """The digests that a row of `meta` holds. Damage is named here: no database has a name for users yet."""
    try:
        return _decode(unseal(DIGESTS, row, META))
    except StoreDamaged:
        raise StoreDamaged(f"what the store says of itself, key {DIGESTS.decode()}", None, COPY) from None


class Tally:
    """The changes of one transaction to the digests before it, which are None in a store without them."""

    def __init__(self, before: Digests | None) -> None:
        self._before = before
        self._now: dict[str, Digest] = {} if before is None else dict(before)
        self._new: dict[str, list[bytes]] = {}
        self._gone: dict[str, list[bytes]] = {}
        self._changed = False

    def knows(self, db: str) -> bool:
        """Whether a database has a digest."""
        return db in self._now

    def begin(self, db: str, digest: Digest) -> None:
        """Begin with a database that had no digest so far."""
        self._now[db] = digest

    def add(self, db: str, keys: Collection[bytes]) -> None:
        """These keys are new in a database."""
        if keys:
            self._new.setdefault(db, []).extend(keys)

    def remove(self, db: str, keys: Collection[bytes]) -> None:
        """These keys were there, and are no more."""
        if keys:
            self._gone.setdefault(db, []).extend(keys)

    def clear(self, db: str) -> None:
        """A database has no rows now."""
        self._now[db] = Digest()
        self._new.pop(db, None)
        self._gone.pop(db, None)
        self._changed = True

    def complete(self, db: str, by: Digest) -> None:
        """Correct a database by what a check has counted; it is whole then."""
        self._now[db] = self._now.get(db, Digest()).plus(by)._replace(whole=True)
        self._changed = True

    def after(self) -> tuple[dict[str, Digest], bytes] | None:
        """The digests after it, and their row; None where nothing changed. The row counts among the keys of `meta`."""
        if self._before is None and META in self._now:
            self.add(META, [DIGESTS])
        if not (self._changed or self._new or self._gone) or META not in self._now:
            return None
        for db, keys in self._new.items():
            self._now[db] = self._now[db].plus(digest_of(keys))
        for db, keys in self._gone.items():
            self._now[db] = self._now[db].plus(Digest().minus(digest_of(keys)))
        return self._now, seal(DIGESTS, msgspec.msgpack.encode(self._now))
