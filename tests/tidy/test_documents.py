"""Check the documents: their sizes, every relative link, and the generated page of modules."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tidy.modules import PAGE, page
from tests.tidy.tree import ROOT, files, parsed

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_ANSWER = re.compile(r"^\| Where .*\? \| `(\S+)` \| `(\S+)` \|$", re.MULTILINE)
_LARGEST_README = 12 * 1024
_LARGEST_ARCHITECTURE = 25 * 1024


def _broken(page: Path, text: str) -> list[str]:
    """Return the links of a page that lead to no file of this repository. Web addresses and anchors pass."""
    links = [link.partition("#")[0] for link in _LINK.findall(text)]
    return [link for link in links if link and "://" not in link and not (page.parent / link).exists()]


@pytest.mark.parametrize("path", files(".md"), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_to_a_file(path: Path) -> None:
    assert _broken(path, path.read_text("utf-8")) == []


def test_a_broken_link_is_found() -> None:
    text = "[a](docs/guide/writing.md) [b](docs/gone.md#part) [c](https://example.org/x) [d](#limits)"
    assert _broken(ROOT / "README.md", text) == ["docs/gone.md"]


@pytest.mark.parametrize(("document", "folder"), [("README.md", "docs/guide"), ("ARCHITECTURE.md", "docs/design")])
def test_a_document_links_every_page_of_its_folder(document: str, folder: str) -> None:
    text = (ROOT / document).read_text("utf-8")
    pages = [str(path.relative_to(ROOT)) for path in files(".md", under=ROOT / folder)]
    assert pages
    assert [path for path in pages if f"({path})" not in text] == []


def test_the_readme_stays_short() -> None:
    assert len((ROOT / "README.md").read_bytes()) <= _LARGEST_README


def test_the_page_of_modules_is_current() -> None:
    assert PAGE.read_text("utf-8") == page(), "write it with `python -m tests.tidy.modules`"


def test_the_architecture_stays_short() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_bytes()) <= _LARGEST_ARCHITECTURE


def _names(module: ast.Module) -> Iterator[str]:
    """Yield the names that a module defines: functions, classes, methods as `Class.method`, and values."""
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        if isinstance(node, ast.ClassDef):
            yield from (f"{node.name}.{part.name}" for part in node.body if isinstance(part, ast.FunctionDef))
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def _wrong_answers(text: str) -> list[str]:
    return [
        f"{file} {name}"
        for file, name in _ANSWER.findall(text)
        if not (ROOT / file).exists() or name not in _names(parsed(ROOT / file))
    ]


def test_each_answer_of_the_page_of_places_exists() -> None:
    text = (ROOT / "docs" / "design" / "where.md").read_text("utf-8")
    assert len(_ANSWER.findall(text)) >= 40
    assert _wrong_answers(text) == []


def test_a_wrong_answer_is_found() -> None:
    text = (
        "| Where is it? | `penstock/cache/encoding/checksum.py` | `seal` |\n"
        "| Where is that? | `penstock/cache/encoding/checksum.py` | `gone` |"
    )
    assert _wrong_answers(text) == ["penstock/cache/encoding/checksum.py gone"]
