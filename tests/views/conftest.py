"""An app with a table to define views on."""

import pytest

from penstock.views.app import App
from penstock.views.definitions import Table


@pytest.fixture
def app() -> App:
    return App("shop")


@pytest.fixture
def users(app: App) -> Table:
    return app.table("users", key="id", ts="ts")
