"""`penstock run` on both sides of `wallaroo+source://`: kills of either process lose nothing and repeat nothing."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.cli.running.connector_runs import Runs
from tests.cli.running_process import until


def test_a_run_feeds_another_one_however_often_either_is_killed(tmp_path: Path) -> None:
    """A kill ends the receiver, then the sender, and both are started again."""
    runs = Runs(tmp_path)
    for n in range(2):
        runs.order(20)
        with runs.both() as (first, second):
            until(runs.has_rows, second)
            (first if n else second).send_signal(signal.SIGKILL)
    runs.finish()
