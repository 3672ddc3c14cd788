"""Show any value or error in a message: in one line of bounded length that is valid UTF-8.

Values and errors come from users' functions. So no function here fails, even if their `repr` or `str` does.
"""

from __future__ import annotations

import re
import reprlib
import sys
from typing import Any

from penstock.cache.big_ints import int_to_text

__all__ = [
    "error_text",
    "hidden",
    "key_error",
    "key_text",
    "long_text",
    "repr_by_fields",
    "repr_of",
    "size_text",
    "value_text",
]

_WRITTEN = 10_000  # bits of an int; Python writes out at most 4,300 digits, and slowly
_SAID = 1_000


class _Short(reprlib.Repr):
    """Show any value in one short line. An int that Python refuses to write out is shown by its size."""

    def repr_int(self, x: int, level: int) -> str:
        bits = x.bit_length()
        return super().repr_int(x, level) if bits < _WRITTEN else f"<int of {bits} bits>"


_short = _Short()


def value_text(value: object) -> str:
    """Return a short text of any value, with its type.

    >>> value_text([1] * 1000), value_text(7**9999)
    ('[1, 1, 1, 1, 1, 1, ...] (list)', '<int of 28071 bits> (int)')
    """
    return f"{_short.repr(value)} ({type(value).__name__})"


def key_text(value: object) -> str:
    """Return a short text of a key or group, without its type.

    >>> key_text("Joe"), key_text((7, "x" * 1000))
    ("'Joe'", "(7, 'xxxxxxxxxxxx...xxxxxxxxxxxxx')")
    """
    return _short.repr(value)


class _Long(_Short):
    """Show any value in a long text."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 12
        self.maxdict = self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = self.maxdeque = 1_000
        self.maxstring = self.maxother = self.maxarray = 10_000
        self.maxlong = 5_000


_long = _Long()


def long_text(value: object) -> str:
    """Return a long text of a value, with its type. It preserves a value that can't be stored.

    >>> long_text({"id": 7, "at": 1j})
    "{'at': 1j, 'id': 7} (dict)"
    """
    return f"{_long.repr(value)} ({type(value).__name__})".encode(errors="replace").decode()


class _Exact(reprlib.Repr):
    """Show any value in full, with all digits of its ints."""

    def __init__(self) -> None:
        super().__init__()
        for name, limit in vars(self).items():
            if isinstance(limit, int):
                setattr(self, name, sys.maxsize)

    def repr_int(self, x: int, level: int) -> str:
        return int_to_text(x)

    def repr_dict(self, x: dict[Any, Any], level: int) -> str:
        return f"{{{', '.join(f'{self.repr(key)}: {self.repr(value)}' for key, value in x.items())}}}"


_exact = _Exact()


def repr_of(value: object) -> str:
    """Return the repr of a value, even if it holds ints of more digits than Python writes out.

    >>> repr_of(("a", 1)), len(repr_of({"a": [10**8_999]}))
    ("('a', 1)", 9009)
    """
    try:
        return repr(value)
    except ValueError:
        return _exact.repr(value)


def repr_by_fields(self: Any) -> str:
    """Return the usual repr of a dataclass, but with `repr_of` for each field."""
    names = type(self).__match_args__
    return f"{type(self).__qualname__}({', '.join(f'{name}={repr_of(getattr(self, name))}' for name in names)})"


def key_error(key: object) -> KeyError:
    """Return a KeyError whose text Python can write: with the key, or with its size if it has too many digits.

    >>> key_error(7), key_error(10**8_999)
    (KeyError(7), KeyError('<int of 29895 bits>'))
    """
    try:
        repr(key)
    except ValueError:
        return KeyError(key_text(key))
    return KeyError(key)


def error_text(error: BaseException) -> str:
    r"""Return the type and the text of an error, cut short and valid as UTF-8.

    >>> error_text(KeyError("name")), error_text(ValueError("x" * 1_000_000))[:14], error_text(ValueError("\ud800"))
    ("KeyError: 'name'", 'ValueError: xx', 'ValueError: ?')
    """
    try:
        text = str(error)[:_SAID]
    except Exception as worse:  # the error class is a user's, so its __str__ may raise
        text = f"<its text raises {type(worse).__name__}>"
    return f"{type(error).__name__}: {text}".encode(errors="replace").decode()


def hidden(text: str) -> str:
    """Mask the passwords of URIs in a text, because messages, status and logs have many readers.

    >>> hidden("users=kafka://sue:pass@host:9092/users?sasl.password=pass&from=latest")
    'users=kafka://sue:***@host:9092/users?sasl.password=***&from=latest'

    The colon after a URI stays, so a text that is masked again is the same.

    >>> hidden(hidden("orders=wallaroo://host:7100?cookie=C: it is refused"))
    'orders=wallaroo://host:7100?cookie=***: it is refused'
    """
    for pattern in _SECRETS:
        text = pattern.sub(r"\1***", text)
    return text


_SECRETS = (  # each pattern matches up to the last @, since a password may contain an unescaped one
    re.compile(r"(://[^\s:/@]*:)(?!\d+(?:[\s/?,:]|$))[^\n]*(?=@)"),  # not after a port
    re.compile(r"(://[^\s:/@]*:)\S*(?=@)"),
    re.compile(r"(\bkafka:(?://)?)(?!\S*:\*\*\*@)\S*(?=@)"),  # a user name alone may be a token
    re.compile(
        r"([?&][^\s=&]*(?:pass|secret|token|cookie|credential|jaas|key\.pem)[^\s=&]*=)[^\s&]+?(?=:?(?:\s|$)|&)",
        re.IGNORECASE,
    ),
)


def size_text(size: float) -> str:
    """Return a number of bytes in a readable unit.

    >>> size_text(999), size_text(1_240), size_text(5_300_000)
    ('999 bytes', '1.2 kB', '5.3 MB')
    """
    if size < 1000:
        return f"{size:.0f} bytes"
    for unit in ("kB", "MB", "GB"):
        size /= 1000
        if size < 1000:
            return f"{size:.1f} {unit}"
    return f"{size / 1000:.1f} TB"
