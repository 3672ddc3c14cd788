"""Check the options with which a store is opened: app, changes of views, durability, permissions, limits and scrubs."""

from __future__ import annotations

from penstock.cache import ArgumentKind, DefinitionError, Limits, key_text
from penstock.core import Scrubbing
from penstock.views import App

__all__ = ["check_options"]


def check_options(
    app: object, migrate: object, durability: object, mode: object, limits: object, scrub: object
) -> None:
    """Raise an error that names the first option of the wrong kind or value."""
    if not isinstance(app, App):
        raise DefinitionError(f"ps.open() got {key_text(app)} where the app goes; write ps.open(app, 'state')")
    if not isinstance(migrate, str) or migrate not in ("auto", "refuse"):
        raise DefinitionError(f"migrate= is {key_text(migrate)}; write 'auto' or 'refuse'")
    if not isinstance(durability, str) or durability not in ("sync", "group"):
        raise DefinitionError(f"durability= is {key_text(durability)}; write 'sync' or 'group'")
    if isinstance(mode, bool) or not isinstance(mode, int) or mode & ~0o777 or mode & 0o700 != 0o700:
        advice = "write permissions that include those of this user, such as 0o750"
        raise DefinitionError(f"mode= is {key_text(mode)}; {advice}")
    if limits is not None and not isinstance(limits, Limits):
        raise ArgumentKind("limits", limits, "give penstock.cache.Limits, or leave it out")
    if scrub is not None and not isinstance(scrub, Scrubbing):
        raise ArgumentKind("scrub", scrub, "give penstock.engine.Scrubbing, or leave it out")
