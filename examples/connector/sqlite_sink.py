"""Receive the output of workers in a SQLite database, exactly once.

python -m examples.connector.sqlite_sink out.db 127.0.0.1:7100 COOKIE

Table `pieces` holds bytes that are not committed yet, and `rows` the committed ones. A commit moves them in one
transaction of SQLite, so it may come twice.
"""

import sqlite3
import sys
from contextlib import suppress

import penstock as ps


class SqliteSink(ps.connector.Sink):
    """A sink with a database. All methods run in the thread of `serve`."""

    def __init__(self, path: str, address: str, cookie: str) -> None:
        super().__init__(address, cookie, folder=f"{path}-state")
        self.db = sqlite3.connect(path, check_same_thread=False)
        for table in ("pieces", "rows"):
            self.db.execute(f"CREATE TABLE IF NOT EXISTS {table} (worker, offset, body, PRIMARY KEY (worker, offset))")

    def write(self, worker: str, offset: int, body: bytes) -> None:
        self.db.execute("INSERT OR REPLACE INTO pieces VALUES (?, ?, ?)", (worker, offset, body))

    def prepare(self, worker: str, txn: str) -> bool:
        self.db.commit()  # from here on the bytes survive a kill
        return True

    def commit(self, worker: str, txn: str, end: int) -> None:
        which = "FROM pieces WHERE worker = ? AND offset < ?"
        with self.db:
            self.db.execute(f"INSERT OR REPLACE INTO rows SELECT * {which}", (worker, end))
            self.db.execute(f"DELETE {which}", (worker, end))

    def rollback(self, worker: str, end: int) -> None:
        with self.db:
            self.db.execute("DELETE FROM pieces WHERE worker = ? AND offset >= ?", (worker, end))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    with SqliteSink(*sys.argv[1:]) as sink, suppress(KeyboardInterrupt):
        sink.serve()
