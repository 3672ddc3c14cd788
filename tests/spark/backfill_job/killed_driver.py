"""A driver that is killed with signal 9 when a stage begins.

    python -m tests.spark.backfill_job.killed_driver STORE FILE STAGE

The tasks run in the driver. Without a stage of that name it ends by itself.
"""

from __future__ import annotations

import os
import signal
import sys

from penstock.spark import backfill
from tests.spark.backfill_job.test_killed import shop
from tests.spark.inprocess import InProcess


def main(store: str, file: str, stage: str) -> None:
    """Fill the store, until the stage is reported."""

    def tell(what: str, done: int, total: int) -> None:
        if what == stage:
            os.kill(os.getpid(), signal.SIGKILL)

    backfill(shop(), store, spark=InProcess(), progress=tell, users=file)


if __name__ == "__main__":
    main(*sys.argv[1:])
