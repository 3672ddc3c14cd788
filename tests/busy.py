"""The test suite beside processes that burn a core each: `python -m tests.busy [ARGUMENT OF PYTEST …]`.

A test that measures time, or that waits too briefly, fails here. The burning processes end with the suite, each
by its own handle, and with this process if it is killed.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from examples.kafka.broker import dying_with_parent

BURNING = 2
_ROOT = Path(__file__).resolve().parents[1]
_BURN = "while True: pass"


def main(arguments: list[str]) -> int:
    """Run the suite with these arguments. Return its exit code."""
    with ExitStack() as stack:
        for _ in range(BURNING):
            burning = stack.enter_context(
                subprocess.Popen([sys.executable, "-c", _BURN], preexec_fn=dying_with_parent())
            )
            stack.callback(burning.kill)
            print(f"process {burning.pid} burns a core", flush=True)
        return subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=_ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
