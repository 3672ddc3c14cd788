"""Make a store of a state: a folder with the partitions as the last manifest names them."""

from __future__ import annotations

import os

from penstock.cache import PenstockError, Tell, built_beside, synced
from penstock.core import layout_of, write_layout
from penstock.partitions import LocalCopy
from penstock.spark.streaming.manifests import Manifest, NoState, SparkState, StateHeader

__all__ = ["restore_state"]


def _header_and_last(state: SparkState) -> tuple[StateHeader, Manifest]:
    """Return the header of a state and its newest manifest. Raise an error if there is no state, or no batch."""
    header, last = state.header(), state.newest()
    if header is None:
        raise NoState(state.uri)
    if last is None:
        raise PenstockError(f"the state {state.uri} has no batch yet; wait for the first one")
    return header, last


def restore_state(uri: str, path: str, tell: Tell | None = None) -> Manifest:
    """Make a store of the state at a URI, as its last manifest names it. The path must be new.

    Return that manifest. A stream may go on meanwhile.
    """
    state = SparkState(uri)
    header, last = _header_and_last(state)
    layout = layout_of(header.app, header.seed, header.ranges().starts, 0)
    with built_beside(path) as target:
        for i, folder in enumerate(layout.folders(target)):
            os.makedirs(folder)
            LocalCopy(folder, header.state, i, state.files).open(last.partitions[i].version).close()
            os.unlink(os.path.join(folder, "lock.mdb"))
            synced(folder)
            if tell is not None:
                tell("restoring", i + 1, len(layout.parts))
        write_layout(target, layout)
    return last
