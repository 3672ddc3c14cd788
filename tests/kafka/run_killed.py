"""Run `penstock run`, which kills itself at a counted point: `python -m tests.kafka.run_killed POINT N ARGUMENT…`.

Invariant: the process ends by SIGKILL when it reaches the point for the N-th time, like after a loss of power.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from penstock.cli.program import main
from penstock.core.commit import Core
from penstock.sink.kafka_sink import KafkaSink
from penstock.spout import KafkaSpout

POINTS: dict[str, tuple[Any, str, bool]] = {
    "before a commit": (Core, "_commit", False),
    "after a commit": (Core, "_commit", True),
    "before the group is told": (KafkaSpout, "_tell", False),
    "before changes are sent": (KafkaSink, "write", False),
    "after changes are sent": (KafkaSink, "write", True),
    "before changes are held": (KafkaSink, "_hold", False),
    "after changes have arrived": (KafkaSink, "_flush", True),
}


def killed_at(point: str, number: int) -> None:
    """Kill this process when it reaches the point so many times."""
    owner, name, after = POINTS[point]
    inner: Callable[..., Any] = getattr(owner, name)
    seen = 0

    def method(self: Any, *args: Any, **named: Any) -> Any:
        nonlocal seen
        seen += 1
        if seen == number and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        out = inner(self, *args, **named)
        if seen == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return out

    setattr(owner, name, method)


if __name__ == "__main__":
    killed_at(sys.argv[1], int(sys.argv[2]))
    sys.argv[1:] = sys.argv[3:]
    main()
