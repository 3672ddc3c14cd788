"""The placement of keys: the partitions of the store with their ranges, and the server that has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.cache import encode_key
from penstock.engine import Snapshot
from penstock.rpc import penstock_pb2 as pb
from penstock.rpc import position_field

__all__ = ["PlacementReader"]

_SPAN = 1 << 64


class PlacementReader:
    """The placement of one server with these addresses."""

    def __init__(self, data: str, http: str, control: str = "") -> None:
        self._server = pb.Server(id="1", data=data, http=http, control=control)

    def read(self, snap: Snapshot, keys: Sequence[Any]) -> pb.Placement:
        """Return the placement as a snapshot shows it, and the partition of each key."""
        starts = snap.starts
        ends = [*starts[1:], _SPAN]
        owners = snap.owners([encode_key(key) for key in keys])
        partitions = [
            pb.Partition(
                id=number,
                range=f"{start:016x}-{end:016x}",
                replicas=[pb.Replica(server="1", primary=True, in_sync=True)],
                epoch=part.state.epoch,
                position=position_field(part.position),
                state=pb.Partition.READY,
            )
            for number, (part, start, end) in enumerate(zip(snap.parts, starts, ends, strict=True))
        ]
        return pb.Placement(version=1, partitions=partitions, servers=[self._server], located=owners)
