"""The password of a URI never appears in messages, status or files of a store, because others read them."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock as ps
from penstock.cache import hidden
from penstock.kafka import KafkaFault, address_of
from penstock.spout import SourceUnreadable, UriError
from tests.cli.conftest import Run

SECRET = "hunter2"
URIS = [
    f"kafka://sue:{SECRET}@host:9092/users",
    f"kafka://sue:a@b/{SECRET}@host:9092/users",
    f"kafka://host:9092,sue:{SECRET}@other:9092/users?from=latest",
    f"kafka://host:9092/users?folow=1&sasl.password={SECRET}",
    f"kafka://host:9092/users?sasl.password={SECRET}&from=latest",
    f"kafka://host:9092/users?sasl.jaas.config={SECRET}",
    f"kafak://sue:{SECRET}@host:9092/users",
    f"kafka://sue:a {SECRET}@host:9092/users",
    f"kafka:sue:{SECRET}@host:9092/users",
    f"kafka://{SECRET}@host:9092/users",
    f"kafka://host:9092/users?token={SECRET}",
    f"kafka://host:9092/users?sasl.oauthbearer.token={SECRET}",
    f"kafka://host:9092/users?ssl.key.passphrase={SECRET}",
]
COMMANDS = [
    ("run", "--from", "users={}"),
    ("run", "--from", "nobody={}"),
    ("run", "--from", "{}"),
    ("run", "--to", "namecount={}"),
    ("run", "--to", "{}"),
    ("run", "--from", "users={}", "--to", "namecount={}", "-v"),
    ("load", "users", "{}"),
    ("load", "{}", "a.jsonl"),
    ("verify", "--against", "users={}"),
    ("pause", "users={}"),
]


@pytest.mark.parametrize(
    ("command", "uri"),
    [(command, URIS[0]) for command in COMMANDS] + [(COMMANDS[0], uri) for uri in URIS[1:]],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_no_command_shows_a_password(shop: Path, run: Run, command: tuple[str, ...], uri: str) -> None:
    result = run(*(argument.format(uri) for argument in command), code=None)
    assert result.exit_code in (1, 2, 3)
    assert SECRET not in result.output + result.stderr
    for file in shop.rglob("*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes()


@pytest.mark.parametrize("uri", URIS)
def test_no_error_holds_a_password(uri: str) -> None:
    errors = [KafkaFault(uri, uri, "wait"), UriError(uri, uri, "wait"), SourceUnreadable(uri, "it is odd", uri)]
    for error in errors:
        assert SECRET not in f"{error} {error!r} {error.args} {vars(error)}"


def test_a_user_in_a_uri_is_refused_with_the_next_step() -> None:
    with pytest.raises(KafkaFault, match=r"kafka://sue:\*\*\*@host:9092/users: a user and a password.*config=FILE"):
        address_of(URIS[0], URIS[0].removeprefix("kafka:"), {})


def test_other_text_stays() -> None:
    for text in (
        "kafka://host:9092/users?from=latest",
        "sue@example.org: see http://host/a@b",
        "a:b@c",
        "file:a:b",
        "kafka://host:9092/users: ask sue@example.org",
    ):
        assert hidden(text) == text


@pytest.mark.parametrize("name", [".", ".."])
def test_no_table_or_view_is_a_folder(name: str) -> None:
    app = ps.App("shop")
    with pytest.raises(ps.DefinitionError, match="can't name a table"):
        app.table(name, key="id")
    with pytest.raises(ps.DefinitionError, match="can't name a view"):
        app.table("users", key="id").view(name, key="name", reduce=ps.count())
