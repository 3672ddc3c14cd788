"""The process of a partition serves all tasks of a host, and its end costs at most a stage of a batch."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.cache import Limits, PenstockError, StoreInUse, WriterLock
from penstock.core import Batch, Resume, Settings
from penstock.engine import StateServer
from penstock.gateway import TableBatch
from penstock.mapreduce import even_starts
from penstock.partitions import (
    END_STAGE,
    STOP_PROCESS,
    TAKE_STAGE,
    WRITE_SNAPSHOT,
    BatchTurn,
    LocalStateFiles,
    OffsetRange,
    OldTurn,
    StateClient,
    StateStart,
    StateVersion,
    TurnElsewhere,
    transferred,
)
from tests.waiting import PATIENCE

PROGRAM, SEED = StateServer.__module__, 7


def shop() -> ps.App:
    app = ps.App("shop")
    orders = app.table("orders", key="id", ts="ts")
    orders.view("totals", key="city", value="amount", reduce=ps.sum())
    return app


def until_ended(process: int) -> None:
    """Wait for the end of a process."""
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(process)
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        assert poll.poll(1000 * PATIENCE), f"process {process} does not end"
        os.close(handle)


def holder(start: StateStart) -> int:
    """Return the process that holds the folder of the local copy."""
    try:
        WriterLock(start.folder).close()
    except StoreInUse as error:
        return int(str(error.holder).split()[1].rstrip(","))
    return 0


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StateStart]:
    files = LocalStateFiles(str(tmp_path / "state"))
    settings = Settings(1 << 20, Limits())
    local = str(tmp_path / "local" / "0")
    own = StateStart(
        transferred(shop()), "s1", 0, even_starts(1), SEED, local, files, settings, PROGRAM, parent=os.getpid()
    )
    yield own
    process = holder(own) if os.path.exists(local) else 0
    if process:
        os.kill(process, signal.SIGKILL)
        until_ended(process)


def taken(client: StateClient, batch: int, base: StateVersion, attempt: int = 0) -> Any:
    doc = b'{"id": %d, "ts": %d, "city": "Oslo", "amount": 2}' % (batch, batch)
    return client.call(
        TAKE_STAGE,
        turn=BatchTurn(1, batch, attempt),
        base=base,
        tables={"orders": [Batch(TableBatch([doc]))]},
        offsets={"orders": OffsetRange(batch, Resume(batch + 1))},
        kinds={"orders": "int"},
    )


def one_batch(client: StateClient, batch: int, base: StateVersion) -> StateVersion:
    taken(client, batch, base)
    return base.after(client.call(END_STAGE, turn=BatchTurn(1, batch, 0), level=1, blobs=[]).links)


def test_two_clients_share_a_process(start: StateStart) -> None:
    one, other = StateClient(start), StateClient(start)
    version = one_batch(one, 0, StateVersion())
    first = taken(one, 1, version)
    assert taken(other, 1, version) == first, "a repeated request gets the kept answer"
    report = other.call(END_STAGE, turn=BatchTurn(1, 1, 0), level=1, blobs=[])
    assert report.executions[0] == first.execution
    with pytest.raises(OldTurn):
        taken(one, 0, StateVersion())
    for client in (one, other):
        client.close()


def test_a_killed_process_forgets_the_turn_and_keeps_decided_batches(start: StateStart) -> None:
    client = StateClient(start)
    version = one_batch(client, 0, StateVersion())
    taken(client, 1, version)
    first = holder(start)
    os.kill(first, signal.SIGKILL)
    with pytest.raises(TurnElsewhere):
        client.call(END_STAGE, turn=BatchTurn(1, 1, 0), level=1, blobs=[])
    assert holder(start) not in (0, first)
    taken(client, 1, version, attempt=1)
    version = version.after(client.call(END_STAGE, turn=BatchTurn(1, 1, 1), level=1, blobs=[]).links)
    assert client.call(WRITE_SNAPSHOT).batch == 0, "batch 1 is undecided"
    taken(client, 2, version)
    assert client.call(WRITE_SNAPSHOT).batch == 1
    client.call(STOP_PROCESS)
    client.close()


def test_it_ends_when_it_is_told_to_or_idle_or_alone(start: StateStart) -> None:
    client = StateClient(start)
    one_batch(client, 0, StateVersion())
    process = holder(start)
    client.call(STOP_PROCESS)
    until_ended(process)
    idle = StateClient(replace(start, idle=0.1))
    taken(idle, 0, StateVersion(), attempt=1)
    process = holder(start)
    until_ended(process)
    alone = StateClient(replace(start, parent=(1 << 22) + 1))  # above the largest number of a process
    taken(alone, 0, StateVersion(), attempt=2)
    process = holder(start)
    until_ended(process)
    for own in (client, idle, alone):
        own.close()


def test_its_error_reaches_the_task(start: StateStart) -> None:
    Path(start.folder).parent.mkdir(parents=True)
    Path(start.folder).mkdir(0o700)
    owner = Path(start.folder) / "owner"
    owner.mkdir()
    with pytest.raises(PenstockError, match="owner"):
        taken(StateClient(start), 0, StateVersion())
    owner.rmdir()
