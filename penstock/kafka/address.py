"""Parse the URI of a topic: `kafka://host:9092,other:9092/topic?group=…`.

An option with a dot in its name, such as security.protocol, is passed to the client library. The same is true for every
line `name=value` of the file that `config` names. Passwords belong in such a file, because other users can see the URI
of a command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from penstock.kafka.errors import KafkaFault

CLIENTS = ("kafka-python", "confluent")
_SHARED = ("group", "client", "config")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_SERVER = re.compile(r"[^/@:,\s]+:\d{1,5}|\[[0-9a-fA-F:]+\]:\d{1,5}")
_SECRET = re.compile(r"password|secret|jaas", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Address:
    """A topic and its brokers. `where` is its name in messages."""

    where: str
    servers: str
    topic: str
    group: str | None = None
    client: str | None = None
    config: Mapping[str, str] = field(default_factory=dict)


def address_of(
    text: str,
    rest: str,
    options: Mapping[str, str],
    own: tuple[str, ...] = (),
    read: Callable[[str], str] | None = None,
) -> Address:
    """Parse the address in a URI. `own` names further options, which the caller handles. Raise KafkaFault if it is
    invalid.

    >>> found = address_of("kafka://a:1/users?group=g", "//a:1/users", {"group": "g", "sasl.mechanism": "PLAIN"})
    >>> found.servers, found.topic, found.group, found.config
    ('a:1', 'users', 'g', {'sasl.mechanism': 'PLAIN'})
    """
    known = (*own, *_SHARED)
    for name in options:
        if name not in known and "." not in name:
            raise KafkaFault(
                text,
                f"there is no option {name!r}",
                f"the options are {', '.join(known)}, and those of the client, as security.protocol",
            )
        if "." in name and _SECRET.search(name):
            raise KafkaFault(
                text.partition("?")[0],
                f"{name} would be seen by all in the words of a command",
                f"write the line {name}=… into a file that only you may read, and name that with config=FILE",
            )
    if "@" in rest:
        raise KafkaFault(
            text,
            "a user and a password in a URI would be seen by all in the words of a command",
            "write sasl.username=… and sasl.password=… into a file that only you may read; name it with config=FILE",
        )
    servers, _, topic = rest.removeprefix("//").partition("/")
    if not rest.startswith("//") or not all(map(_SERVER.fullmatch, servers.split(","))):
        raise KafkaFault(
            text, "it names no broker", "write kafka://HOST:PORT/TOPIC, several brokers as HOST:PORT,HOST:PORT"
        )
    if not _TOPIC.fullmatch(topic):
        raise KafkaFault(
            text,
            f"{topic!r} is no name of a topic" if topic else "it names no topic",
            "write kafka://HOST:PORT/TOPIC, the topic of letters, digits, dots, _ and -",
        )
    client = options.get("client")
    if client is not None and client not in CLIENTS:
        raise KafkaFault(text, f"there is no client {client!r}", f"it is one of {', '.join(CLIENTS)}")
    config = {name: value for name, value in options.items() if "." in name}
    if "config" in options:
        config = {**_lines(text, options["config"], read or _read), **config}
    return Address(text, servers, topic, options.get("group") or None, client, config)


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def _lines(text: str, path: str, read: Callable[[str], str]) -> dict[str, str]:
    """Read the properties from a file of lines NAME=VALUE."""
    try:
        lines = read(path).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise KafkaFault(text, f"config={path} can't be read ({error})", "name a file of lines NAME=VALUE") from error
    out: dict[str, str] = {}
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line or line.startswith(("#", "!")):
            continue
        name, sign, value = line.partition("=")
        if not sign:
            raise KafkaFault(text, f"line {number} of {path} has no =", "each line of it is NAME=VALUE")
        out[name.strip()] = value.strip()
    return out
