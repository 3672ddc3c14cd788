"""The process of one partition, begun by the process that opened the store.

It is told on its standard input what it is, opens its store, says on its standard output that it has, or why it could
not, and works until its input ends: by the close of the engine, or by the death of the process that it serves.
"""

from __future__ import annotations

import os
import sys
from typing import IO

from penstock.cache import Owner, PenstockError, open_lmdb, pack
from penstock.engine.agreed import open_partition
from penstock.engine.core import Settings
from penstock.engine.courier import Courier
from penstock.engine.handed import error_data
from penstock.engine.holder import take_socket
from penstock.engine.member import Member
from penstock.engine.order import Order, read_order
from penstock.engine.parting import Parting
from penstock.mapreduce import Ranges


def _serve(order: Order, until: IO[bytes], say: IO[bytes]) -> None:
    """Be this partition until the input ends."""
    path = order.folders[order.here]
    owner = Owner(path)
    try:
        parting = Parting(order.here, Ranges(order.starts, order.seed))
        settings = Settings(order.memory, order.limits, order.changes)
        sock = take_socket(path)
        engine = open_partition(order.app.app(), open_lmdb(path), parting, path, owner, settings, sock)
    except BaseException:
        owner.close()
        raise
    member = Member(engine)
    couriers = [Courier(member, other, order.folders[other]) for other in member.others]

    def wake() -> None:
        for courier in couriers:
            courier.wake()

    parting.wake = wake
    try:
        _say(say, {"ready": os.getpid()})
        while until.read(1):
            pass
    finally:
        for courier in couriers:
            courier.end()
        engine.close()


def _say(file: IO[bytes], what: object) -> None:
    data = pack(what)
    file.write(len(data).to_bytes(4, "big") + data)
    file.flush()


def main() -> int:
    """Be a partition."""
    say = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what functions of views print is no answer
    try:
        _serve(read_order(sys.stdin.buffer), sys.stdin.buffer, say)
    except PenstockError as error:
        _say(say, {"failed": error_data(error)})
        return 1
    return 0
