"""The limits of the machine: decode the input and nothing else, or append it and sync each batch.

Neither has a view. The first counts the documents, the second reads its file back.
"""

from __future__ import annotations

import os

import msgspec

from bench.peers.drivers.turn import Turn


class _User(msgspec.Struct, gc=False):
    id: int
    name: str
    city: str
    amount: int
    ts: int


def _decode(batches: list[list[bytes]]) -> int:
    """Decode all lines to structs, which are discarded, and return their number."""
    decode, count = msgspec.json.Decoder(_User).decode, 0
    for lines in batches:
        for a in range(0, len(lines), 1_024):
            count += len(list(map(decode, lines[a : a + 1_024])))
    return count


def main() -> None:
    turn = Turn()
    batches = turn.batches()
    lines = sum(map(len, batches))
    if turn.setting == "memory":
        turn.ready()
        count = _decode(batches)
    else:
        path = turn.folder / "appended"
        with path.open("wb", buffering=0) as file:
            turn.ready()
            for own in batches:
                file.write(b"\n".join(own) + b"\n")
                os.fdatasync(file.fileno())
        count = path.read_bytes().count(b"\n")
    turn.done("")
    turn.write([["lines", count]] if count == lines else [])


if __name__ == "__main__":
    main()
