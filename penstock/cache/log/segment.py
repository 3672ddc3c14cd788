"""A segment: one entry of a table's log, with the documents of one batch as they were received.

    n u32 | flags u8 | crc32c u32 of its key, n, flags, columns | columns | lines
    columns: lane 0 (n × u64) | lane 1 (n × u64, flag 1) | offsets (n+1 × u32)
             | gone (n × u8, flag 2) | crcs (⌈n/16⌉ × u32)

The header is big-endian, the columns little-endian. Its CRC also covers the row's key (the first record, u64), so a
segment under another row's key counts as damage. Each of `crcs` covers 16 lines, so reading one line checks 16.
The first byte of a line tells its kind: `{` a JSON object, a MessagePack map a document, a MessagePack array a value
that the gateway wrapped. That is a tombstone, or a document with further fields of its table. A line is never changed
or moved within its segment.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from penstock.cache.errors import StoreDamaged
from penstock.cache.log.key_slots import Lane

_HEAD = struct.Struct(">IBI")
_CHECKED = struct.Struct(">QIB")
FEW = _GROUP = 16  # lines under one CRC
_FEW = 32  # up to so many positions Python is faster than NumPy's fixed cost
_LANE1, _GONE = 1, 2


def build_segment(
    base: int, lines: Sequence[bytes], k0: Lane, k1: Lane | None, gone: NDArray[np.bool_] | None
) -> bytes:
    """Encode a segment whose first record is `base`. `gone` marks the lines that delete their keys."""
    n = len(lines)
    if 0 < n <= FEW:  # one CRC covers all of them, and the fixed cost of NumPy would be most of the work
        offsets = struct.pack(f"<{n + 1}I", 0, *accumulate(map(len, lines)))
        crcs = crc32c(b"".join(lines)).to_bytes(4, "little")
    else:
        offsets, crcs = _offsets_and_crcs(lines)
    flags = (0 if k1 is None else _LANE1) | (0 if gone is None else _GONE)
    columns = b"".join(
        (
            k0.tobytes(),
            b"" if k1 is None else k1.tobytes(),
            offsets,
            b"" if gone is None else gone.tobytes(),
            crcs,
        )
    )
    return _entry(base, n, flags, columns, lines)


def _offsets_and_crcs(lines: Sequence[bytes]) -> tuple[bytes, bytes]:
    """Return the offsets of lines, and the CRCs of groups of lines. The joined lines of a group stay in the cache."""
    offsets = np.zeros(len(lines) + 1, np.uint32)
    np.cumsum(np.fromiter(map(len, lines), np.uint32, len(lines)), out=offsets[1:])
    groups = range(0, len(lines), _GROUP)
    crcs = np.fromiter((crc32c(b"".join(lines[a : a + _GROUP])) for a in groups), np.uint32, len(groups))
    return offsets.tobytes(), crcs.tobytes()


def build_small(
    base: int, lines: Sequence[bytes], keys: Sequence[tuple[int, int]], wide: bool, gone: Sequence[bool] | None
) -> bytes:
    """Encode a few lines to the bytes that `build_segment` gives.

    One CRC covers all lines. `wide` adds the second lane.
    """
    n = len(lines)
    assert n <= FEW, "more lines have more CRCs"
    lanes = [k0 for k0, _ in keys]
    if wide:
        lanes += [k1 for _, k1 in keys]
    offsets = struct.pack(f"<{n + 1}I", 0, *accumulate(map(len, lines)))
    flags = (_LANE1 if wide else 0) | (0 if gone is None else _GONE)
    marks = b"" if gone is None else bytes(gone)
    columns = b"".join(
        (struct.pack(f"<{len(lanes)}Q", *lanes), offsets, marks, crc32c(b"".join(lines)).to_bytes(4, "little"))
    )
    return _entry(base, n, flags, columns, lines)


def at_base(value: bytes, base: int) -> bytes:
    """Return the segment with `base` as its first record, and with a new checksum."""
    n, flags, _ = _HEAD.unpack_from(value)
    end = _ends(n, flags)[-1]
    crc = _crc(base, n, flags, memoryview(value)[_HEAD.size : end])
    return _HEAD.pack(n, flags, crc) + value[_HEAD.size :]


def _ends(n: int, flags: int) -> list[int]:
    """Return the ends of the header and of each column, for n lines."""
    sizes = [8 * n, 8 * n if flags & _LANE1 else 0, 4 * (n + 1), n if flags & _GONE else 0, 4 * -(-n // _GROUP)]
    return list(accumulate([_HEAD.size, *sizes]))


def _entry(base: int, n: int, flags: int, columns: bytes, lines: Sequence[bytes]) -> bytes:
    return b"".join((_HEAD.pack(n, flags, _crc(base, n, flags, columns)), columns, *lines))


def _crc(base: int, n: int, flags: int, columns: bytes | memoryview) -> int:
    return crc32c(columns, crc32c(_CHECKED.pack(base, n, flags)))


@dataclass(slots=True)
class Segment:
    """A decoded segment. Its columns are checked at once, its lines when they are read."""

    base: int
    k0: Lane
    k1: Lane | None
    offsets: NDArray[np.uint32]
    gone: NDArray[np.bool_] | None
    _crcs: NDArray[np.uint32]
    _raw: memoryview
    _where: str

    def __len__(self) -> int:
        return int(self.k0.size)

    @property
    def size(self) -> int:
        """Return the bytes of its lines."""
        return self.offsets.item(-1)

    @classmethod
    def parse(cls, base: int, value: bytes | memoryview, where: str, checked: set[int] | None = None) -> Segment:
        """Decode a segment whose first record is `base`. Raise StoreDamaged if its columns don't match their CRC.

        Segments in `checked` were read before by this process. Their columns are not checked again.
        """
        view = memoryview(value)
        if len(view) < _HEAD.size:
            raise StoreDamaged(f"{where}, log entry {base}")
        n, flags, crc = _HEAD.unpack_from(value)
        ends = _ends(n, flags)
        trusted = checked is not None and base in checked
        if ends[-1] > len(view) or not (trusted or _crc(base, n, flags, view[_HEAD.size : ends[-1]]) == crc):
            raise StoreDamaged(f"{where}, log entry {base}")
        if checked is not None:
            checked.add(base)

        def column(i: int, dtype: Any) -> NDArray[Any]:
            return np.frombuffer(view[ends[i] : ends[i + 1]], dtype)

        return cls(
            base,
            column(0, np.uint64),
            column(1, np.uint64) if flags & _LANE1 else None,
            column(2, np.uint32),
            column(3, np.bool_) if flags & _GONE else None,
            column(4, np.uint32),
            view[ends[-1] :],
            where,
        )

    def lines(self, at: NDArray[Any]) -> list[bytes]:
        """Return the lines at these indexes after checking their CRCs."""
        n = len(self)
        if n <= _GROUP:
            return self._lines_of_few(at.tolist())
        groups = at // _GROUP
        wanted = np.unique(groups) if groups.size > _FEW else np.array(sorted(set(groups.tolist())), np.int64)
        first = self.offsets[wanted * _GROUP].tolist()
        last = self.offsets[np.minimum(wanted * _GROUP + _GROUP, n)].tolist()
        raw = self._raw
        for group, a, b, crc in zip(wanted.tolist(), first, last, self._crcs[wanted].tolist(), strict=True):
            if crc32c(raw[a:b]) != crc:
                raise StoreDamaged(f"{self._where}, log entry {self.base}, lines {group * _GROUP} and on")
        starts, ends = self.offsets[at].tolist(), self.offsets[at + 1].tolist()
        return [bytes(raw[a:b]) for a, b in zip(starts, ends, strict=True)]

    def _lines_of_few(self, at: list[int]) -> list[bytes]:
        """Do the same as `lines` if one CRC covers all lines."""
        raw, ends = self._raw, self.offsets.tolist()
        if at and crc32c(raw[: ends[-1]]) != self._crcs.item(0):
            raise StoreDamaged(f"{self._where}, log entry {self.base}, lines 0 and on")
        return [bytes(raw[ends[i] : ends[i + 1]]) for i in at]
