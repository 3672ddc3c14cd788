"""Convert messages of Wallaroo workers to documents and deletions."""

from __future__ import annotations

import msgspec
import pytest

from penstock.cache import unpack_document
from penstock.spout.wallaroo_records import MessageFormat

GONE = b'{"view": "v", "group": ["a", 1], "value": null, "deleted": true, "position": 3}\n'


def test_documents_of_both_forms_are_taken() -> None:
    found = MessageFormat().take([b' {"id": 1}\n', msgspec.msgpack.encode({"id": 2})])
    assert found.batch.lines[0] == b'{"id": 1}'
    assert found.batch.n == 2
    assert not found.refused


@pytest.mark.parametrize("body", [b"", b"[1]", b"null", b"\xff", b"text"])
def test_another_message_is_refused_with_its_bytes(body: bytes) -> None:
    found = MessageFormat().take([b'{"id": 1}', body, b'{"id": 2}'])
    assert found.batch.lines == [b'{"id": 1}', b'{"id": 2}']
    assert found.received[1].data == body
    assert list(found.refused) == found.skips == [1]


@pytest.mark.parametrize("only", ["json", "msgpack"])
def test_one_format_refuses_the_other(only: str) -> None:
    found = MessageFormat(only=only).take([b'{"id": 1}', msgspec.msgpack.encode({"id": 1})])
    assert list(found.refused) == [only == "json"]


def test_lines_of_a_view_put_and_delete() -> None:
    found = MessageFormat(view_lines=True).take(
        [b'{"group": "a", "value": {"n": 1}}\n', GONE, b'{"group": null, "value": 2}']
    )
    assert list(map(unpack_document, found.batch.lines)) == [{"key": "a", "value": {"n": 1}}, {"key": None, "value": 2}]
    assert {place: deletion.key for place, deletion in found.batch.deletes.items()} == {1: ["a", 1]}


@pytest.mark.parametrize(
    "body", [b'{"value": 1}', b'{"group": 1}', b'{"view": "v", "envelope": "value", "position": 8}']
)
def test_a_line_without_group_or_value_is_refused(body: bytes) -> None:
    assert list(MessageFormat(view_lines=True).take([body]).refused) == [0]
