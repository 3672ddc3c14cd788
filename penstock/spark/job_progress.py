"""The progress of a Spark job. A thread reads it regularly and reports tasks done, and the total."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from penstock.cache import Tell

__all__ = ["report_progress"]

_EVERY = 0.25  # seconds


@contextmanager
def report_progress(spark: Any, what: str, tell: Tell) -> Iterator[None]:
    """Report the progress of Spark jobs while the block runs. If the block fails, cancel them."""
    tell(what, 0, 0)
    context = spark.sparkContext
    group, ended = f"penstock-{uuid.uuid4().hex}", threading.Event()
    context.setJobGroup(group, what, interruptOnCancel=True)
    watch = threading.Thread(target=_watch, args=(context.statusTracker(), group, what, tell, ended), daemon=True)
    watch.start()
    try:
        yield
    except BaseException:
        context.cancelJobGroup(group)
        raise
    finally:
        ended.set()
        watch.join()
        context.setLocalProperty("spark.jobGroup.id", None)


def _watch(tracker: Any, group: str, what: str, tell: Tell, ended: threading.Event) -> None:
    while not ended.wait(_EVERY):
        done = total = 0
        for job in tracker.getJobIdsForGroup(group):
            info = tracker.getJobInfo(job)
            for number in () if info is None else info.stageIds:
                stage = tracker.getStageInfo(number)
                if stage is not None:
                    done, total = done + stage.numCompletedTasks, total + stage.numTasks
        if total:
            tell(what, done, total)
