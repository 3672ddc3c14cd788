"""The driver of the campaign of kills: it takes all documents of a folder into the state there, and ends."""

from __future__ import annotations

import sys
from pathlib import Path

from penstock.spark import session, stream
from tests.spark.streaming.stream_app import streamed


def main() -> int:
    """Run a stream to the end of its files."""
    folder = Path(sys.argv[1])
    uris = {table: str(folder / f"{table}.jsonl") for table in ("orders", "customers")}
    spark = session("local[2,4]")
    try:
        run = stream(
            streamed(),
            str(folder / "state"),
            uris,
            spark=spark,
            partitions=2,
            batch=30,
            every="0 seconds",
            local=str(folder / "local"),
            snapshot_every=3,
        )
        run.finish()
    finally:
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
