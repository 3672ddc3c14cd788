"""Plant a bug: replace a text in one function, and exchange the function's code while a test runs.

A test fails if the text is not there, or if the bug uses a name that the function's module lacks. Otherwise a test
would find the NameError, not the bug. Then the function was rewritten, and the bug must be planted in it again.
"""

from __future__ import annotations

import builtins
import dis
import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from types import CodeType

import pytest


@dataclass(frozen=True)
class Edit:
    """A replacement of `old` by `new` in one function of the package."""

    where: str
    old: str
    new: str

    def plant(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Exchange the function's code."""
        found = resolve_name(f"penstock.{self.where}")
        function = inspect.unwrap(getattr(found, "__func__", found))
        source = textwrap.dedent(inspect.getsource(function))
        assert source.count(self.old) == 1, f"{self.where} has no {self.old!r}: plant this bug anew"
        module = compile(source.replace(self.old, self.new), inspect.getfile(function), "exec")
        code = next(c for c in module.co_consts if isinstance(c, CodeType) and c.co_name == function.__name__)
        unknown = {name for name in _globals(code) if name not in function.__globals__ and not hasattr(builtins, name)}
        assert not unknown, f"the module of {self.where} has no {', '.join(sorted(unknown))}: plant this bug anew"
        monkeypatch.setattr(function, "__code__", code)


def _globals(code: CodeType) -> Iterator[str]:
    """Yield the global names that a function and its inner functions read."""
    for step in dis.get_instructions(code):
        if step.opname == "LOAD_GLOBAL":
            yield step.argval
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _globals(inner)


class Bug:
    """A bug: its description, and its edits."""

    def __init__(self, name: str, where: str, old: str, new: str, *others: Edit) -> None:
        self.name = name
        self.edits = (Edit(where, old, new), *others)

    def plant(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Plant the bug in the package while a test runs."""
        for edit in self.edits:
            edit.plant(monkeypatch)


def assert_found(
    run: Callable[[Path, int], object], path: Path, seeds: Iterable[int], *errors: type[BaseException]
) -> None:
    """Run seeds, each in a folder of its own below the path, until one fails by an assertion or such an error."""
    for seed in seeds:
        try:
            run(path / str(seed), seed)
        except (AssertionError, *errors):
            return
    pytest.fail("no seed found the bug")
