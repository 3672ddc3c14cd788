"""Fill a store in bulk: segments with a given base, an index written in one step, and a folder that gets its name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cache import CopyFailed, IndexEntries, MemoryStore, at_base, bits_for, built_beside, look_up, write_anew
from penstock.cache.log.segment import Segment, build_segment

LINES = st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=40)


@given(lines=LINES, base=st.integers(0, 1 << 40), hashed=st.booleans(), gone=st.booleans())
def test_a_moved_segment_equals_one_built_at_its_new_base(
    lines: list[bytes], base: int, hashed: bool, gone: bool
) -> None:
    n = len(lines)
    k0, k1 = np.arange(n, dtype=np.uint64), np.arange(n, dtype=np.uint64) if hashed else None
    marks = np.arange(n) % 3 == 0 if gone else None
    moved = at_base(build_segment(0, lines, k0, k1, marks), base)
    assert moved == build_segment(base, lines, k0, k1, marks)
    assert Segment.parse(base, moved, "here").lines(np.arange(n)) == lines


@given(
    hashes=st.lists(st.integers(0, (1 << 64) - 1), unique=True, max_size=300),
    wide=st.booleans(),
    parts=st.integers(0, 3),
)
def test_an_index_written_whole_or_in_parts_finds_every_key(hashes: list[int], wide: bool, parts: int) -> None:
    store, bits = MemoryStore(), bits_for(len(hashes), 4)
    own = np.array(hashes, np.uint64)
    rest = (own & np.uint64(0xFFFF)).astype(np.uint32) if wide else None
    records = np.arange(own.size, dtype=np.uint32)
    part = own >> np.uint64(64 - parts) if parts else np.zeros(own.size, np.uint64)
    with store.write() as writer:
        for number in range(1 << parts):
            at = np.flatnonzero(part == number)
            entries = IndexEntries(own[at], None if rest is None else rest[at], records[at])
            write_anew(writer, "index", bits, entries)
    with store.read() as reader:
        found, where = look_up(reader, "index", bits, own, rest)
        assert found.all()
        assert where.tolist() == records.tolist()
        missing = np.array([h for h in range(50) if h not in set(hashes)], np.uint64)
        assert not look_up(reader, "index", bits, missing, None if rest is None else missing.astype(np.uint32))[0].any()


def test_a_folder_gets_its_name_at_the_end_or_never(tmp_path: Path) -> None:
    target = tmp_path / "store"
    with built_beside(str(target)) as folder:
        (Path(folder) / "data.mdb").write_bytes(b"whole")
        assert not target.exists()
    assert (target / "data.mdb").read_bytes() == b"whole"
    with pytest.raises(CopyFailed, match="it is there already and not empty"), built_beside(str(target)):
        pass
    with pytest.raises(ZeroDivisionError), built_beside(str(tmp_path / "other")) as folder:
        (Path(folder) / "data.mdb").write_bytes(1 // 0 * b"")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store"]
