"""Errors of the package for the command line: their advice is a command to type, not a function to call."""

from __future__ import annotations

from penstock.cache import (
    DefinitionError,
    KeyKind,
    KeyTooLong,
    PenstockError,
    RecordError,
    StoreInUse,
    StoreMissing,
    UnknownName,
    ValueKind,
)
from penstock.cli.context import FAILED, WRONG
from penstock.cli.exit_errors import ExitError
from penstock.sink import SinkTaken
from penstock.spout import SourceMissing, UnknownScheme, UriError
from penstock.views import Position, PositionAhead, PositionExpired, position_text


def of_package(error: PenstockError) -> ExitError:
    """Return an error of the package as a fault whose advice is a command to type."""
    if isinstance(error, UnknownName):
        near = f"did you mean {error.nearest!r}?" if error.nearest else "`penstock explain` shows all"
        return ExitError(f"there is no {error.kind} named {error.name!r}; {near}", WRONG)
    if isinstance(error, StoreMissing):
        return ExitError(
            f"there is no store at {error.path}; `penstock load TABLE FILE` makes one, --store names another", WRONG
        )
    if isinstance(error, StoreInUse):
        return ExitError(
            f"the store at {error.path} is being written by {error.holder}; end that one and run this again"
        )
    if isinstance(error, PositionExpired):
        return ExitError(
            f"the feed no longer has all changes since position {position_text(error.asked)}; --since "
            f"{_typed(error.oldest)} goes back as far as it does, and `penstock query VIEW` shows what there is now"
        )
    if isinstance(error, PositionAhead):
        return ExitError(f"{error}; `penstock status` shows where the store is", WRONG)
    argument = isinstance(
        error,
        DefinitionError
        | KeyKind
        | KeyTooLong
        | RecordError
        | SinkTaken
        | SourceMissing
        | UnknownScheme
        | UriError
        | ValueKind,
    )
    return ExitError(str(error), WRONG if argument else FAILED)


def _typed(position: Position) -> str:
    """Return a position as a user types it in a shell."""
    text = position_text(position)
    return text if text.isdecimal() else f"'{text}'"
