"""Run every example of docstrings, the README and the guide, and compare its output.

All ```python blocks of a page run one after the other in one namespace. A block with `>>>` runs as a doctest. A ```text
block right after a ```python block holds its output.
"""

import contextlib
import doctest
import importlib
import inspect
import io
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.tidy.tree import PACKAGE, files, module_name

_FLAGS = doctest.ELLIPSIS
_BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_WITH_EXAMPLES = [module_name(p) for p in files(".py", under=PACKAGE) if ">>>" in p.read_text("utf-8")]
_PAGES = [p for p in files(".md") if "```python" in p.read_text("utf-8")]


@pytest.fixture(autouse=True)
def _an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples open stores by short relative paths."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", _WITH_EXAMPLES)
def test_docstrings(name: str) -> None:
    module = importlib.import_module(name)
    report = io.StringIO()
    with contextlib.redirect_stdout(report):
        result = doctest.testmod(module, optionflags=_FLAGS)
    assert result.attempted > 0
    assert result.failed == 0, report.getvalue()


@pytest.mark.parametrize("page", _PAGES, ids=lambda p: p.name)
def test_page(page: Path, tmp_path: Path) -> None:
    blocks = _blocks(page.read_text("utf-8"))
    assert any(language == "python" for language, _ in blocks)
    names: dict[str, Any] = {"__name__": "__main__"}
    shown = ""
    for number, (language, body) in enumerate(blocks):
        if language == "python":
            shown = _run(body, tmp_path / f"{page.stem}_{number}.py", names)
        elif language == "text" and number and blocks[number - 1][0] == "python":
            assert shown == body


def _blocks(text: str) -> list[tuple[str, str]]:
    return [(match[1], match[2]) for match in _BLOCK.finditer(text)]


def _run(body: str, path: Path, names: dict[str, Any]) -> str:
    """Run a block, and return its output. The block gets a file of its own, so that `inspect` sees its source."""
    out = io.StringIO()
    if ">>>" in body:
        test = doctest.DocTestParser().get_doctest(body, names, path.name, None, 0)
        runner = doctest.DocTestRunner(optionflags=_FLAGS)
        runner.run(test, out=out.write, clear_globs=False)
        assert runner.failures == 0, out.getvalue()
        names.update(test.globs)
        return ""
    path.write_text(body, "utf-8")
    with contextlib.redirect_stdout(out):
        exec(compile(body, str(path), "exec"), names)
    return out.getvalue()


def test_a_wrong_page_is_found(tmp_path: Path) -> None:
    assert _blocks("a\n```python\nprint(1)\n```\n```text\n1\n```\n") == [("python", "print(1)\n"), ("text", "1\n")]
    assert _run("print(1)\n", tmp_path / "a.py", {}) == "1\n"
    with pytest.raises(AssertionError, match="Expected"):
        _run(">>> 1 + 1\n3\n", tmp_path / "b.py", {})


def _public() -> list[tuple[str, Any]]:
    """Return the functions of the API, and its classes except errors."""
    penstock: ModuleType = importlib.import_module("penstock")
    named = [(name, getattr(penstock, name)) for name in penstock.__all__]
    return [
        (name, thing)
        for name, thing in named
        if inspect.isfunction(thing) or (inspect.isclass(thing) and not issubclass(thing, BaseException))
    ]


def test_every_public_name_has_an_example() -> None:
    assert [name for name, thing in _public() if ">>>" not in (inspect.getdoc(thing) or "")] == []


def test_every_public_method_says_what_it_does() -> None:
    silent = [
        f"{name}.{member}"
        for name, thing in _public()
        if inspect.isclass(thing)
        for member, value in vars(thing).items()
        if not member.startswith("_") and (inspect.isfunction(value) or isinstance(value, property))
        if not inspect.getdoc(value)
    ]
    assert not silent, "\n".join(silent)
