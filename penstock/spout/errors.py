"""Errors of spouts. Each names the source of records, the reason and the next step."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.cache import PenstockError, hidden

__all__ = ["SourceCut", "SourceMissing", "SourceMoved", "SourceUnreadable", "UnknownScheme", "UriError"]


class SourceUnreadable(PenstockError):
    """A file or topic can't be read, or can't be read further.

    >>> print(SourceUnreadable("users.jsonl", "there is no such file", "check the path"))
    users.jsonl: there is no such file; check the path
    """

    def __init__(self, source: str, reason: str, remedy: str) -> None:
        source, remedy = hidden(source), hidden(remedy)
        super().__init__(source, reason, remedy)
        self.source = source
        self.reason = reason
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.source}: {self.reason}; {self.remedy}"


class SourceMissing(SourceUnreadable):
    """A file or topic does not exist, or the path is no file."""


class SourceMoved(PenstockError):
    """A batch does not begin at the store's offset, because another process loaded the source or a refill moved the
    offset.

    >>> print(SourceMoved("users=file:users.jsonl", 100, 250))
    users=file:users.jsonl stands at 250 in the store and not at 100: it was loaded by another process \
meanwhile, or refilled; let that end, then run this again
    """

    def __init__(self, source: str, expected: int, found: int) -> None:
        super().__init__(source, expected, found)
        self.source = source
        self.expected = expected
        self.found = found

    def __str__(self) -> str:
        return (
            f"{self.source} stands at {self.found} in the store and not at {self.expected}: it was loaded by another "
            "process meanwhile, or refilled; let that end, then run this again"
        )


class SourceCut(PenstockError):
    """Some partition has only a part of a batch, and the spout does not report the offsets of its records.

    >>> print(SourceCut("users=other:feed", 100, 250))
    users=other:feed: some partition stands between 100 and 250, and the spout does not tell the offsets of single \
records; give its batches as they were cut before, or load all of it again with again=True
    """

    def __init__(self, source: str, start: int, resume: int) -> None:
        super().__init__(source, start, resume)
        self.source = source
        self.start = start
        self.resume = resume

    def __str__(self) -> str:
        return (
            f"{self.source}: some partition stands between {self.start} and {self.resume}, and the spout does not tell "
            "the offsets of single records; give its batches as they were cut before, or load all of it again with "
            "again=True"
        )


class UriError(PenstockError):
    """A text is no URI of a spout, or has an unknown option.

    >>> print(UriError("file:users.jsonl?folow=1", "there is no option 'folow'", "the options are follow, format"))
    file:users.jsonl?folow=1: there is no option 'folow'; the options are follow, format
    """

    def __init__(self, uri: str, reason: str, remedy: str) -> None:
        uri, reason = hidden(uri), hidden(reason)
        super().__init__(uri, reason, remedy)
        self.uri = uri
        self.reason = reason
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.uri}: {self.reason}; {self.remedy}"


class UnknownScheme(PenstockError):
    """No spout or sink is registered for the scheme of a URI.

    >>> print(UnknownScheme("ftp", "spout", ("-", "file")))
    there is no spout for ftp: URIs; there are -, file; install the package that brings it, or write \
file:PATH for a file of such a name
    """

    def __init__(self, scheme: str, kind: str, known: Sequence[str]) -> None:
        super().__init__(scheme, kind, known)
        self.scheme = scheme
        self.kind = kind
        self.known = tuple(known)

    def __str__(self) -> str:
        known = f"there are {', '.join(self.known)}" if self.known else "none is installed"
        return (
            f"there is no {self.kind} for {self.scheme}: URIs; {known}; install the package that brings it, "
            "or write file:PATH for a file of such a name"
        )
