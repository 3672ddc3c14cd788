"""Start other processes, for tests of their effects on a store."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def process(code: str, *args: object) -> Iterator[subprocess.Popen[str]]:
    """Run Python code in another process, which ends with the block. The code can use `say` and `wait`."""
    head = "import sys\ndef say(x): print(x, flush=True)\ndef wait(): return sys.stdin.readline().strip()\n"
    child = subprocess.Popen(
        [sys.executable, "-c", head + code, *map(str, args)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=os.getcwd(),
    )
    try:
        yield child
    finally:
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()


def heard(child: subprocess.Popen[str]) -> str:
    """Return the next line that the process says."""
    assert child.stdout is not None
    return child.stdout.readline().strip()


def send_line(child: subprocess.Popen[str], line: str = "on") -> None:
    """Send the process a line."""
    assert child.stdin is not None
    child.stdin.write(line + "\n")
    child.stdin.flush()


def in_fork(act: Callable[[], object]) -> str:
    """Run a call in a forked child, and return its result or its error as text."""
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            result = repr(act())
        except BaseException as error:
            result = f"{type(error).__name__}: {error}"
        os.write(into, result.encode()[:4000])
        os._exit(0)
    os.close(into)
    with os.fdopen(out, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(pid, 0)
    return said
