"""Parse the URI of a topic, and refuse invalid ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.kafka import KafkaFault, address_of
from penstock.spout import SPOUTS, UriError
from tests.waiting import PATIENCE


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("kafka:users", "it names no broker; write kafka://HOST:PORT/TOPIC"),
        ("kafka://host/users", "it names no broker"),
        ("kafka://me:secret@host:9092/users", "a user and a password in a URI would be seen by all"),
        ("kafka://host:9092", "it names no topic"),
        ("kafka://host:9092/a b", "'a b' is no name of a topic"),
        ("kafka://host:9092/users?grop=x", "there is no option 'grop'; the options are from, lost"),
        ("kafka://host:9092/users?from=soon", "there is no from=soon; write earliest, latest, or a moment"),
        ("kafka://host:9092/users?from=2026-01-31T12:00:00", "there is no from=2026"),
        ("kafka://host:9092/users?lost=all", "there is no lost=all; it is one of earliest, latest"),
        ("kafka://host:9092/users?envelope=avro", "there is no envelope=avro; it is one of debezium, topic"),
        ("kafka://host:9092/users?keys=int", "there is no keys=int; it is one of json, text, msgpack, bytes"),
        ("kafka://host:9092/users?client=sarama", "there is no client 'sarama'; it is one of kafka-python, confluent"),
        ("kafka://host:9092/users?config=nowhere", "config=nowhere can't be read"),
    ],
)
def test_the_error_says_how_to_write_the_uri(uri: str, says: str) -> None:
    with pytest.raises(UriError) as caught:
        SPOUTS.open(uri, "users")
    assert says in str(caught.value)


def test_a_password_is_never_shown() -> None:
    with pytest.raises(UriError) as caught:
        SPOUTS.open("kafka://host:9092/users?sasl.password=hunter2", "users")
    assert "hunter2" not in str(caught.value)
    assert "name that with config=FILE" in str(caught.value)


def test_a_file_of_properties(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("# who we are\n\nsasl.username = me\nsasl.password=a=b\nsecurity.protocol=SSL\n")
    own = {"config": str(path), "security.protocol": "SASL_SSL", "client": "confluent"}
    found = address_of("kafka://a:1,b:2/users", "//a:1,b:2/users", own)
    assert found.servers == "a:1,b:2"
    assert found.config == {"sasl.username": "me", "sasl.password": "a=b", "security.protocol": "SASL_SSL"}
    path.write_text("sasl.username\n")
    with pytest.raises(KafkaFault, match=r"line 1 of .* has no ="):
        address_of("kafka://a:1/users", "//a:1/users", own)


def test_no_client_is_imported_before_it_is_needed() -> None:
    """Neither the command line nor an invalid URI imports a client."""
    code = (
        "import sys, penstock, penstock.cli.program, penstock.spout, penstock.sink\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'kafka', 'confluent_kafka'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert done.stdout == "[]\n"


def test_a_client_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.kafka.client_choice.find_spec", lambda name: None)
    for client, says in (("", "'penstock[kafka]'"), ("?client=confluent", "'penstock[confluent]'")):
        with pytest.raises(Exception, match=r"this needs the package .*kafka") as caught:
            SPOUTS.open(f"kafka://host:9092/users{client}", "users")
        assert says in str(caught.value)
