"""Simulate a bad disk: flip one bit of one row of a store, without the engine's knowledge."""

from pathlib import Path

import lmdb


def flip_a_bit(store: Path, group: bytes) -> None:
    """Flip a bit in the first row of a view whose key ends with `group`."""
    with lmdb.open(str(store), max_dbs=256, map_size=1 << 40) as env, env.begin(write=True) as transaction:
        rows = [name for name, _ in transaction.cursor() if name.startswith(b"view:")]
        for name in rows:
            db = env.open_db(name, transaction)
            for key, row in transaction.cursor(db):
                if key.endswith(group):
                    transaction.put(key, bytes([row[0], row[1] ^ 1]) + row[2:], db=db)
                    return
    raise LookupError(f"no row of a view has a key that ends with {group!r}")
