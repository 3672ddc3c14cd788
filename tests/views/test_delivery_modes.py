"""Accept the delivery modes of a view, and refuse invalid ones by name."""

from __future__ import annotations

from typing import Any

import pytest

import penstock as ps
from penstock.views import DeliveryMode


def test_views_with_early_delivery_store_contributions() -> None:
    tables = [ps.App("shop").table("users", key="id") for _ in range(3)]
    plain = tables[0].view("names", key="name", reduce=ps.count())
    kept = tables[1].view("names", key="name", reduce=ps.count(), sources=True)
    weak = tables[2].view("names", key="name", reduce=ps.count(), production="weak")
    assert plain.production is DeliveryMode.STRONG
    assert (weak.production, weak.sources) == (DeliveryMode.WEAK, True)
    assert weak.describe() == kept.describe() != plain.describe()


@pytest.mark.parametrize("production", ["weak", "auto"])
def test_a_view_on_a_view_is_refused(production: Any) -> None:
    users = ps.App("shop").table("users", key="id")
    names = users.view("names", key="name", reduce=ps.count(), production=production)
    with pytest.raises(ps.DefinitionError, match="it is on view 'names', whose rows nobody waits for"):
        names.view("sizes", key="value", reduce=ps.count(), production=production)
    assert names.view("sizes", key="value", reduce=ps.count()).production is DeliveryMode.STRONG


def test_an_invalid_delivery_mode_is_refused() -> None:
    users = ps.App("shop").table("users", key="id")
    for wrong in ("quick", None):
        with pytest.raises(ps.DefinitionError, match="write 'strong'"):
            users.view("names", key="name", reduce=ps.count(), production=wrong)  # type: ignore[call-overload]
