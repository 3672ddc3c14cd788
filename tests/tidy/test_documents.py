"""Check the documents: the size of the README, and every relative link."""

import re
from pathlib import Path

import pytest

from tests.tidy.tree import ROOT, files

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_LARGEST_README = 12 * 1024


def _broken(page: Path, text: str) -> list[str]:
    """Return the links of a page that lead to no file of this repository. Web addresses and anchors pass."""
    links = [link.partition("#")[0] for link in _LINK.findall(text)]
    return [link for link in links if link and "://" not in link and not (page.parent / link).exists()]


@pytest.mark.parametrize("page", files(".md"), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file(page: Path) -> None:
    assert _broken(page, page.read_text("utf-8")) == []


def test_a_broken_link_is_found() -> None:
    text = "[a](docs/guide/writing.md) [b](docs/gone.md#part) [c](https://example.org/x) [d](#limits)"
    assert _broken(ROOT / "README.md", text) == ["docs/gone.md"]


def test_the_readme_links_every_page_of_the_guide() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    pages = [str(page.relative_to(ROOT)) for page in files(".md", under=ROOT / "docs" / "guide")]
    assert pages
    assert [page for page in pages if f"({page})" not in readme] == []


def test_the_readme_stays_short() -> None:
    assert len((ROOT / "README.md").read_bytes()) <= _LARGEST_README
