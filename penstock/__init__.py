"""Penstock keeps aggregate views true while their documents change.

import penstock as ps

app = ps.App("shop")
users = app.table("users", key="id", ts="ts")
namecount = users.view("namecount", key="name", reduce=ps.count())

with ps.open(app, "state") as engine:
    engine.put("users", {"id": 7, "name": "Sue", "ts": 1})
    with engine.snapshot() as snap:
        print(snap.view("namecount")["Sue"])
"""

from penstock.cache import (
    BatchRejected,
    Closed,
    DefinitionChanged,
    DefinitionError,
    ForkedStore,
    KeyKind,
    KeyTooLong,
    MissingExtra,
    PenstockError,
    ReadOnly,
    RecordError,
    StoreDamaged,
    StoreFormat,
    StoreFull,
    StoreInUse,
    StoreMissing,
    UnknownName,
    ValueKind,
)
from penstock.engine import Engine, Snapshot, Ticket, Transaction
from penstock.engine import open_engine as open
from penstock.mapreduce import count, group, histogram, mean, stddev, sum, variance
from penstock.spout import Record
from penstock.views import App, Counts, Field, Rejection, Row, Table, View, ViewReader, Where, field

__all__ = [
    "App",
    "BatchRejected",
    "Closed",
    "Counts",
    "DefinitionChanged",
    "DefinitionError",
    "Engine",
    "Field",
    "ForkedStore",
    "KeyKind",
    "KeyTooLong",
    "MissingExtra",
    "PenstockError",
    "ReadOnly",
    "Record",
    "RecordError",
    "Rejection",
    "Row",
    "Snapshot",
    "StoreDamaged",
    "StoreFormat",
    "StoreFull",
    "StoreInUse",
    "StoreMissing",
    "Table",
    "Ticket",
    "Transaction",
    "UnknownName",
    "ValueKind",
    "View",
    "ViewReader",
    "Where",
    "count",
    "field",
    "group",
    "histogram",
    "mean",
    "open",
    "stddev",
    "sum",
    "variance",
]
