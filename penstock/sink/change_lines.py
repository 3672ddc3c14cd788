"""The line of a change: the latest value of its group, or the whole change."""

from __future__ import annotations

from penstock.views import ABSENT, Change

__all__ = ["ENVELOPES", "change_line"]

ENVELOPES = ("value", "change")


def change_line(change: Change, envelope: str) -> dict[str, object]:
    """Return the data of a line.

    >>> change_line(Change("namecount", "Joe", 2, ABSENT, 8), "value")
    {'view': 'namecount', 'group': 'Joe', 'value': None, 'deleted': True, 'position': 8}
    """
    if envelope == "change":
        return change.data()
    out = {"view": change.view, "group": change.group, "value": None, "deleted": True, "position": change.position}
    if change.new is not ABSENT:
        out["value"] = change.new
        del out["deleted"]
    return out
