"""Compare the reports of all partitions after a batch. Only reports that fit together are committed.

A stage can run twice, and its second execution may make other productions. So each production that
was applied must be one of the execution that its sender's changelog has, and none may be missing.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.partitions.state.turns import BatchTurn, Report

__all__ = ["misfit"]


def misfit(reports: Sequence[Report], turn: BatchTurn, partitions: int) -> str | None:
    """Return the reason why these reports can't be committed together; None if they can."""
    by_partition = {report.partition: report for report in reports}
    if sorted(by_partition) != list(range(partitions)) or len(reports) != partitions:
        return f"{len(reports)} reports came, of partitions {sorted(by_partition)}, and there are {partitions}"
    for report in reports:
        if report.turn != turn:
            return f"partition {report.partition} reports turn {tuple(report.turn)}, and this is {tuple(turn)}"
    for report in reports:
        for level, sender, execution in report.received:
            executions = by_partition[sender].executions
            if level >= len(executions) or executions[level] != execution:
                return f"partition {report.partition} applied productions of a lost execution of partition {sender}"
    received = {(level, sender, own.partition) for own in reports for level, sender, _ in own.received}
    sent = {(level, own.partition, receiver) for own in reports for level, receiver in own.sent}
    for _, sender, receiver in sorted(sent ^ received):
        return f"partition {receiver} did not apply what partition {sender} sent, or applied what was not sent"
    return None
