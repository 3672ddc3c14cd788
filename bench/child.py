"""Run one function of the bench in a fresh Python process, so that its memory, its cores and its caches are its own.

`run("bench.load:load", docs=1000)` starts `python -m bench.child bench.load:load '{"docs": 1000}'` and returns the
function's result, which must be JSON. The function may print further lines, which are notes to the parent.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from typing import Any

from bench import machine

_RESULT = "result "


class ChildFailed(Exception):
    """The error of a measurement that ended without a result. Its traceback is on stderr."""


class Child:
    """A running measurement."""

    def __init__(self, target: str, cores: int, arguments: dict[str, Any]) -> None:
        command = [sys.executable, "-m", "bench.child", target, json.dumps(arguments), str(cores)]
        self.target = target
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)

    def note(self) -> str:
        """Return the next line that it prints, which must not be its result."""
        line = self._line()
        if not line or line.startswith(_RESULT):
            raise ChildFailed(f"{self.target} ended before it said a word")
        return line.strip()

    def stop(self) -> None:
        """Request its result, by the end of its stdin."""
        assert self._process.stdin
        self._process.stdin.close()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._close()

    def result(self) -> Any:
        while (line := self._line()) and not line.startswith(_RESULT):
            pass
        code = self._process.wait()
        self._close()
        if code or not line:
            raise ChildFailed(f"{self.target} ended with code {code}")
        return json.loads(line.removeprefix(_RESULT))

    def _line(self) -> str:
        assert self._process.stdout
        return self._process.stdout.readline()

    def _close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            assert stream
            stream.close()


def start(target: str, cores: int = 0, **arguments: Any) -> Child:
    """Start a measurement on this number of cores; 0 means all."""
    return Child(target, cores, arguments)


def run(target: str, cores: int = 0, **arguments: Any) -> Any:
    """Run a measurement to its end. A dict gets `idle`, the share of the machine without other load."""
    watch = machine.Watch.start()
    result = start(target, cores, **arguments).result()
    if isinstance(result, dict):
        result["idle"] = watch.share() if watch else None
    return result


def _main(target: str, arguments: str, cores: str) -> None:
    if wanted := int(cores):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-wanted:])
    module, name = target.split(":")
    result = getattr(importlib.import_module(module), name)(**json.loads(arguments))
    print(_RESULT + json.dumps(result), flush=True)


if __name__ == "__main__":
    _main(*sys.argv[1:])
