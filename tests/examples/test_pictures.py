"""The pictures of the guide equal the output of the command, and show its subject."""

from __future__ import annotations

import html
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from examples import pictures
from tests.tidy.tree import ROOT

NAMES = ("watch", "explain", "why")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    pictures.main(folder)
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_is_as_the_command_makes_it(name: str, made: Path) -> None:
    there = (pictures.FOLDER / f"{name}.svg").read_text("utf-8")
    assert (made / f"{name}.svg").read_text("utf-8") == there, "draw them again with `make pictures`"
    assert f"../{name}.svg" in (ROOT / "docs/guide/command-line.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("watch", ["$ penstock watch best played", "before", "Ctrl-C ends it", "position 98"]),
        ("explain", ["matches", "best", "leaders", "played"]),
        ("why", ["--history", "value", "changed", "the feed has all changes since position 0"]),
    ],
)
def test_a_picture_shows_what_it_is_about(name: str, words: list[str], made: Path) -> None:
    data = (made / f"{name}.svg").read_text("utf-8")
    ElementTree.fromstring(data)
    shown = html.unescape(re.sub(r"<[^>]*>", "", data)).replace("\xa0", " ")
    assert [word for word in words if word not in shown] == []
