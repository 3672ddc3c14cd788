"""Check that no test measures time, sleeps for a fixed time, or waits with a short deadline: machines are busy."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.tree import ROOT

CLOCKS = {
    "sleep",
    "perf_counter",
    "perf_counter_ns",
    "process_time",
    "process_time_ns",
    "thread_time",
    "thread_time_ns",
    "getrusage",
    "timeit",
}
LEAST = 60  # seconds of a last deadline


def found(code: str) -> Iterator[str]:
    """Yield calls that measure time, sleep, or wait too briefly."""
    for node in ast.walk(ast.parse(code)):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in CLOCKS:
            yield f"line {node.lineno}: {called}()"
        for keyword in node.keywords:
            value = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
            if keyword.arg == "timeout" and isinstance(value, int | float) and value < LEAST:
                yield f"line {node.lineno}: timeout={value:g}"


def test_a_clock_and_a_short_deadline_are_found() -> None:
    code = "import time\ntime.sleep(1)\nchild.communicate(timeout=5)\nperf_counter()\nchild.wait(timeout=PATIENCE)\n"
    assert list(found(code)) == ["line 2: sleep()", "line 3: timeout=5", "line 4: perf_counter()"]


def test_no_test_measures_time() -> None:
    files = sorted((ROOT / "tests").rglob("*.py"))
    assert files
    wrong = [f"{path.relative_to(ROOT)}, {one}" for path in files for one in found(Path(path).read_text())]
    assert not wrong, "\n".join(wrong)
