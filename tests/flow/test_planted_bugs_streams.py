"""Bugs planted in the watermarks of streams, which seeded histories must find."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cache import PenstockError
from tests.flow.histories import run
from tests.harness.planting import Bug, assert_found

_FORMULA = "flow.source_watermarks"

BUGS = [
    Bug(
        "the watermark of the batch decides lateness",
        f"{_FORMULA}:_counted",
        "late = ts < column",
        "late = ts < column[-1]",
    ),
    Bug(
        "a restart forgets the watermarks",
        "flow.watermarks:Watermarks.recall",
        "read_watermarks(reader) if self._streams else WatermarkRow()",
        "WatermarkRow()",
    ),
    Bug(
        "a source is idle by the time at which the store was closed",
        f"{_FORMULA}:kind_of_source",
        "max(source.rested, opened)",
        "source.rested",
    ),
    Bug(
        "a source with unread records is idle",
        f"{_FORMULA}:kind_of_source",
        "source.rested is None or now - max(source.rested, opened)",
        "now - max(source.rested or 0, opened)",
    ),
    Bug(
        "a ts of the future raises the watermark",
        f"{_FORMULA}:after_records",
        "timely = ts <= now",
        "timely = ts <= ts + now",
    ),
    Bug("a source that ended counts", f"{_FORMULA}:kind_of_source", "if source.ended:", "if False:"),
    Bug(
        "the clock falls",
        "flow.watermarks:Watermarks.begin",
        "max(self.row.now, self._now, self._clock.now())",
        "self._clock.now()",
    ),
    Bug(
        "the greatest source watermark is taken",
        f"{_FORMULA}:after_clock",
        "reached = min(lows)",
        "reached = max(lows)",
    ),
    Bug("lateness is not subtracted", f"{_FORMULA}:after_clock", "state.top - stream.lateness +", "state.top +"),
    Bug("an expected source is not waited for", f"{_FORMULA}:_is_waiting", "name not in state.sources", "False"),
    Bug(
        "the watermarks are written in another transaction",
        "flow.watermarks:Watermarks._change",
        "writes.during.append(lambda writer: write_watermarks(writer, self._next))",
        "pass",
    ),
    Bug(
        "a closing has no position of its own",
        "flow.window_closing:_close",
        "writes.changed = writes.changed or crossed",
        "pass",
    ),
]

ROWS = [
    Bug(
        "a window closes after its end",
        "flow.window_closing:_rows",
        "(after is None or end <= after)",
        "(after is None or end < after)",
    ),
    Bug(
        "a closed window closes again",
        "flow.window_closing:_close",
        "window, before, after) if crossed",
        "window, NEVER, after) if crossed",
    ),
    Bug(
        "a late record changes no closed window",
        "flow.window_closing:_corrections",
        "end is not None and end <= before",
        "False",
    ),
    Bug(
        "a change of an open window is taken for a correction",
        "flow.window_closing:_corrections",
        "end <= before",
        "end <= before + 10**7",
    ),
    Bug(
        "a record is in one window",
        "views.window_definitions:Window.starts",
        "yield from range(first,",
        "yield from range(last,",
    ),
    Bug(
        "the watermark of the batch closes windows",
        "flow.late_records:in_open_windows",
        "end <= lows[documents]",
        "end <= lows[-1]",
    ),
    Bug(
        "late records have one number",
        "flow.late_records:set_aside",
        "enumerate(records, stage.aside)",
        "enumerate(records)",
    ),
    Bug(
        "a record of an open window is set aside too",
        "flow.late_records:in_open_windows",
        "np.unique(documents[closed])",
        "np.unique(documents)",
    ),
    Bug(
        "the number of records is taken before the batch",
        "flow.stream_node:StreamNode._number",
        "self.log.mark.tail + n",
        "self.log.mark.tail",
    ),
]


FIRST = {  # seeds that find a bug at once
    "a restart forgets the watermarks": 0,
    "a source that ended counts": 9,
    "lateness is not subtracted": 5,
    "an expected source is not waited for": 4,
}


@pytest.mark.parametrize("bug", BUGS, ids=[bug.name for bug in BUGS])
def test_seeds_find(bug: Bug, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    assert_found(
        lambda _, seed: run(seed, 15, rows=False), tmp_path, (FIRST.get(bug.name, 1), *range(20)), PenstockError
    )


@pytest.mark.parametrize("bug", ROWS, ids=[bug.name for bug in ROWS])
def test_seeds_find_in_rows(bug: Bug, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    assert_found(lambda _, seed: run(seed, 10), tmp_path, range(20), PenstockError)
