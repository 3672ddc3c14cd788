"""Access tokens: a file of names, roles and digests, and the token of one run.

A line may have the name in a client's certificate in place of a digest: `san:NAME`.

The file never contains a token itself. A lost token is replaced, not read again. Invariants:

- tokens are compared by digest, in constant time;
- a file that others can read is refused;
- a running server knows a changed file within a second. While the file has a fault, the tokens before it stay.
"""

from __future__ import annotations

import fcntl
import hmac
import logging
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from hashlib import sha256
from typing import Self

from penstock.cache import DefinitionError, PenstockError

__all__ = ["AccessToken", "Permission", "Role", "TokenBook", "TokenFile", "digest_of", "moment_of", "new_secret"]

_log = logging.getLogger("penstock.serve")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LOOK = 0.5  # seconds between two looks at the file
_ALL = "*"
_SAN = "san:"


class Permission(Enum):
    """A kind of call."""

    READ = "read"
    WRITE = "write"
    OPERATE = "operate"
    ADMIN = "admin"
    METRICS = "metrics"


class Role(Enum):
    """The role of a token."""

    READ = "read"
    WRITE = "write"
    OPERATE = "operate"
    METRICS = "metrics"
    ADMIN = "admin"

    @property
    def permissions(self) -> frozenset[Permission]:
        """The kinds of calls that the role allows."""
        return _ALLOWS[self]


_ALLOWS = {
    Role.READ: frozenset({Permission.READ}),
    Role.WRITE: frozenset({Permission.READ, Permission.WRITE}),
    Role.OPERATE: frozenset({Permission.READ, Permission.OPERATE}),
    Role.METRICS: frozenset({Permission.METRICS}),
    Role.ADMIN: frozenset(Permission),
}


def digest_of(secret: str) -> str:
    """Return the digest of a token, as the file has it."""
    return sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


@dataclass(frozen=True, slots=True)
class AccessToken:
    """A token without its secret. `tables` limits it to some tables and the views on them.

    With `digest` "san:NAME" a client proves it by a certificate with this alternative name.

    >>> token = AccessToken("board", Role.READ, digest_of("secret"), frozenset({"orders"}))
    >>> AccessToken.of_line(token.line) == token, token.line.split()[:2], token.line.split()[3:]
    (True, ['board', 'read'], ['orders', '*'])
    """

    name: str
    role: Role
    digest: str
    tables: frozenset[str] | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise DefinitionError(f"{self.name!r} is no name of a token; use letters, digits, '.', '_' and '-'")
        if self.digest.startswith(_SAN) and not re.fullmatch(r"san:[!-~]{1,255}", self.digest):
            raise DefinitionError(f"{self.digest[4:]!r} is no name in a certificate; write it as the certificate does")

    @property
    def line(self) -> str:
        """The line of the file."""
        tables = _ALL if self.tables is None else ",".join(sorted(self.tables))
        until = _ALL if self.until is None else self.until.isoformat()
        return f"{self.name} {self.role.value} {self.digest} {tables} {until}"

    @classmethod
    def of_line(cls, line: str) -> Self:
        """Return the token of a line; ValueError if it is none."""
        name, role, digest, *rest = line.split()
        tables, until = (*rest, *[_ALL] * (2 - len(rest)))
        if not digest.startswith(_SAN) and not re.fullmatch("[0-9a-f]{64}", digest):
            raise ValueError("its third word is neither a SHA-256 digest nor san:NAME")
        return cls(
            name,
            Role(role),
            digest,
            None if tables == _ALL else frozenset(tables.split(",")),
            None if until == _ALL else moment_of(until),
        )

    def expired(self, now: datetime) -> bool:
        """Return True if its time is over."""
        return self.until is not None and now >= self.until


def moment_of(text: str) -> datetime:
    """Return the moment of an ISO text, in UTC if it names no zone; ValueError for another text."""
    found = datetime.fromisoformat(text)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def new_secret() -> str:
    """Return a new secret. Its prefix tells people and scanners what it is, and no option of a command begins so."""
    return f"pst_{secrets.token_urlsafe(32)}"


class TokenFile:
    """The file of tokens at a path. It need not exist."""

    def __init__(self, path: str) -> None:
        self.path = path

    @classmethod
    def of_store(cls, path: str) -> Self:
        """Return the file beside the folder of a store."""
        return cls(os.path.abspath(path) + ".tokens")

    def read(self) -> list[AccessToken]:
        """Return all tokens. DefinitionError names a line that is none; PenstockError a file that others can read."""
        try:
            with open(self.path, encoding="utf-8", errors="surrogateescape") as file:
                if os.fstat(file.fileno()).st_mode & 0o077:
                    raise PenstockError(f"other users can read {self.path}; run `chmod 600 {self.path}`")
                lines = file.read().splitlines()
        except FileNotFoundError:
            return []
        out: dict[str, AccessToken] = {}
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.startswith("#"):
                continue
            try:
                token = AccessToken.of_line(line)
            except (ValueError, DefinitionError) as error:
                raise DefinitionError(f"line {number} of {self.path} is no access token: {error}") from None
            if token.name in out:
                raise DefinitionError(f"line {number} of {self.path} has the name {token.name} again; remove one")
            out[token.name] = token
        return list(out.values())

    def add(self, name: str, role: Role, tables: frozenset[str] | None, until: datetime | None) -> str:
        """Add a token, and return its secret, which is nowhere else."""
        secret = new_secret()
        self._add(AccessToken(name, role, digest_of(secret), tables, until))
        return secret

    def add_certificate(
        self, name: str, san: str, role: Role, tables: frozenset[str] | None, until: datetime | None
    ) -> None:
        """Give a role to clients whose certificate has an alternative name."""
        self._add(AccessToken(name, role, _SAN + san, tables, until))

    def _add(self, token: AccessToken) -> None:
        name = token.name
        with self._locked():
            known = self.read()
            if any(own.name == name for own in known):
                raise DefinitionError(f"there is a token {name!r} already; remove it first, or choose another name")
            self._write([*known, token])

    def remove(self, name: str) -> None:
        """Remove a token."""
        with self._locked():
            known = self.read()
            left = [own for own in known if own.name != name]
            if len(left) == len(known):
                names = ", ".join(own.name for own in known) or "none"
                raise DefinitionError(f"there is no token {name!r}; there are: {names}")
            self._write(left)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Let one process at a time change the file."""
        folder = os.open(os.path.dirname(self.path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    def _write(self, tokens: list[AccessToken]) -> None:
        text = "".join(f"{own.line}\n" for own in tokens)
        part = f"{self.path}.{os.getpid()}"
        file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with open(file, "w", encoding="utf-8", errors="surrogateescape") as out:
                out.write(text)
                out.flush()
                os.fsync(out.fileno())
            os.replace(part, self.path)
        except BaseException:
            os.unlink(part)
            raise


class TokenBook:
    """The tokens of a running server: the tokens of the file, and the token of the run."""

    def __init__(
        self, run: AccessToken, file: TokenFile | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._run = run
        self._file = file
        self._clock = clock
        self._tokens = [run]
        self._seen: object = None
        self._next = 0.0
        if file is not None:
            self._tokens = [run, *file.read()]  # a fault ends the start
            self._seen = self._stamp()

    def find(self, secret: str) -> AccessToken | None:
        """Return the token with this secret; None if there is none, or its time is over."""
        return self._found(digest_of(secret))

    def find_certificate(self, names: Iterable[str]) -> AccessToken | None:
        """Return the token of a client whose certificate has these alternative names; None if there is none."""
        return next((found for name in names if (found := self._found(_SAN + name)) is not None), None)

    def _found(self, digest: str) -> AccessToken | None:
        if self._clock() >= self._next:
            self._next = self._clock() + _LOOK
            self._refresh()
        found, proof = None, digest.encode()
        for token in self._tokens:
            if hmac.compare_digest(token.digest.encode(), proof):
                found = token
        return None if found is None or found.expired(datetime.now(UTC)) else found

    def _refresh(self) -> None:
        stamp = self._stamp()
        if self._file is None or stamp == self._seen:
            return
        self._seen = stamp
        try:
            self._tokens = [self._run, *self._file.read()]
        except (PenstockError, OSError) as error:
            _log.warning("the access tokens stay as they were: %s", error)

    def _stamp(self) -> object:
        if self._file is None:
            return None
        try:
            about = os.stat(self._file.path)
        except FileNotFoundError:
            return None
        return about.st_ino, about.st_mtime_ns, about.st_size, about.st_mode
