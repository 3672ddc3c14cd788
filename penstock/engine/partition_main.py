"""The process of one partition, begun by the process that opened the store.

It reads its configuration from standard input and opens its store. It reports success or the error on standard output.
It works until its input ends, when the engine is closed or its parent process dies.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import IO

from penstock.cache import PenstockError, WriterLock, open_lmdb, pack
from penstock.engine.engine import Engine
from penstock.engine.supplied_store import open_partition
from penstock.engine.unpartitioned_store import UnpartitionedStore
from penstock.mapreduce import KeyRanges
from penstock.partitions import DeliveryThread, Member, PartitionExchange, StartMessage, read_message
from penstock.recovery import EarlySet
from penstock.remote import BEAT, error_data, take_socket


def _serve(message: StartMessage, until: IO[bytes], say: IO[bytes]) -> None:
    """Be this partition until the input ends."""
    exchange = PartitionExchange(message.partition, KeyRanges(message.starts, message.seed))
    with _signs(say):
        engine, store = _opened(message, exchange)
    member = Member(store)
    couriers = [DeliveryThread(member, other, message.folders[other], message.patience) for other in member.others]

    def wake() -> None:
        for courier in couriers:
            courier.wake()

    exchange.wake = wake
    member.sends_early(_EarlyDelivery({courier.other: courier for courier in couriers}, message.deadline))
    try:
        store.begin_scrubbing(message.settings.scrub)
        _answer(say, {"ready": os.getpid()})
        while until.read(1):
            pass
    finally:
        for courier in couriers:
            courier.end()
        engine.close()


class _EarlyDelivery:
    """Sends early sets and waits for acks. The wait for optional ones is limited to `deadline` seconds."""

    def __init__(self, couriers: Mapping[int, DeliveryThread], deadline: float) -> None:
        self._delivery_threads = couriers
        self._deadline = deadline

    def __call__(self, early: Mapping[int, EarlySet]) -> set[int]:
        """Return the partitions that have stored their set."""
        deliveries = {other: self._delivery_threads[other].tell(one) for other, one in early.items()}
        until = time.monotonic() + self._deadline
        for one in deliveries.values():
            one.over.wait(None if one.early.waits else max(0.0, until - time.monotonic()))
        answered = {other for other, one in deliveries.items() if one.answered}
        for one in deliveries.values():
            one.over.set()
        return answered


def _opened(message: StartMessage, exchange: PartitionExchange) -> tuple[Engine, UnpartitionedStore]:
    path = message.folders[message.partition]
    owner = WriterLock(path, message.settings.mode)
    try:
        sock = take_socket(path)
        opened = open_lmdb(path, mode=message.settings.mode)
        store = open_partition(
            message.app.app(), opened, exchange, path, owner, message.settings, message.generation_numbers
        )
        return Engine(store, sock=sock), store
    except BaseException:
        owner.close()
        raise


@contextmanager
def _signs(say: IO[bytes]) -> Iterator[None]:
    """Send signs of life during a long opening of the store."""
    done = threading.Event()

    def beat() -> None:
        while not done.wait(BEAT):
            _answer(say, {"beat": True})

    beating = threading.Thread(target=beat, name="penstock-opening", daemon=True)
    _answer(say, {"beat": True})
    beating.start()
    try:
        yield
    finally:
        done.set()
        beating.join()


def _answer(file: IO[bytes], what: object) -> None:
    data = pack(what)
    with suppress(BrokenPipeError):  # the parent has ended, so the input ends too
        file.write(len(data).to_bytes(4, "big") + data)
        file.flush()


def main() -> int:
    """Run the process of a partition."""
    say = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # the output of functions of views is not an answer
    try:
        _serve(read_message(sys.stdin.buffer), sys.stdin.buffer, say)
    except EOFError:
        return 1  # the parent was killed before it sent the configuration
    except PenstockError as error:
        _answer(say, {"failed": error_data(error)})
        return 1
    return 0
