"""Penstock keeps aggregate views true while their documents change.

import penstock as ps

app = ps.App("shop")
users = app.table("users", key="id", ts="ts")
namecount = users.view("namecount", key="name", reduce=ps.count())

with ps.open(app, "state") as engine:
    engine.put("users", {"id": 7, "name": "Sue", "ts": 1})
    with engine.snapshot() as snap:
        print(snap.view("namecount")["Sue"])

A name is imported when it is first asked for, so that `penstock --help` needs neither NumPy nor a store.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock import connector as connector
    from penstock import spark as spark
    from penstock.cache import (
        ArgumentKind,
        BatchRejected,
        Closed,
        CopyFailed,
        DefinitionChanged,
        DefinitionError,
        ForeignFolder,
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
        StoreReplaced,
        UnknownName,
        ValueKind,
    )
    from penstock.client import AsyncClient as AsyncClient
    from penstock.client import Client as Client
    from penstock.client import ClientTls as ClientTls
    from penstock.engine import (
        ConditionFailed,
        Engine,
        ForeignPartition,
        SessionGap,
        Snapshot,
        Ticket,
        Transaction,
        WriteSession,
    )
    from penstock.engine import open_engine as open
    from penstock.mapreduce import (
        all,
        any,
        argmax,
        argmin,
        bottom,
        collect,
        count,
        distinct,
        first,
        group,
        histogram,
        last,
        max,
        mean,
        min,
        monoid,
        only,
        quantiles,
        stddev,
        sum,
        top,
        variance,
    )
    from penstock.recovery import Checked, Mended, Quarantined, QuarantineKind, Repaired, Settled
    from penstock.spout import Record
    from penstock.views import (
        ABSENT,
        App,
        Change,
        Contribution,
        Counts,
        Field,
        PositionAhead,
        PositionExpired,
        Rejection,
        Row,
        Stream,
        Table,
        View,
        ViewReader,
        Where,
        Window,
        field,
        window,
    )
else:

    def __getattr__(name):
        if name in __all__:
            from importlib import import_module

            called = "open_engine" if name == "open" else name
            for room in ("cache", "views", "mapreduce", "recovery", "spout", "engine"):
                module = import_module(f"penstock.{room}")
                if called in module.__all__:
                    found = globals()[name] = getattr(module, called)
                    return found
        if name in ("AsyncClient", "Client", "ClientTls"):
            from importlib import import_module

            try:
                return getattr(import_module("penstock.client"), name)
            except ModuleNotFoundError as error:
                from penstock.cache import MissingExtra

                raise MissingExtra(f"{error.name} (of grpcio)", "client") from None
        if name in ("connector", "spark"):
            from importlib import import_module

            return import_module(f"penstock.{name}")
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")

    def __dir__():
        return sorted({*globals(), *__all__})


__all__ = [
    "ABSENT",
    "App",
    "ArgumentKind",
    "BatchRejected",
    "Change",
    "Checked",
    "Closed",
    "ConditionFailed",
    "Contribution",
    "CopyFailed",
    "Counts",
    "DefinitionChanged",
    "DefinitionError",
    "Engine",
    "Field",
    "ForeignFolder",
    "ForeignPartition",
    "ForkedStore",
    "KeyKind",
    "KeyTooLong",
    "Mended",
    "MissingExtra",
    "PenstockError",
    "PositionAhead",
    "PositionExpired",
    "QuarantineKind",
    "Quarantined",
    "ReadOnly",
    "Record",
    "RecordError",
    "Rejection",
    "Repaired",
    "Row",
    "SessionGap",
    "Settled",
    "Snapshot",
    "StoreDamaged",
    "StoreFormat",
    "StoreFull",
    "StoreInUse",
    "StoreMissing",
    "StoreReplaced",
    "Stream",
    "Table",
    "Ticket",
    "Transaction",
    "UnknownName",
    "ValueKind",
    "View",
    "ViewReader",
    "Where",
    "Window",
    "WriteSession",
    "all",
    "any",
    "argmax",
    "argmin",
    "bottom",
    "collect",
    "count",
    "distinct",
    "field",
    "first",
    "group",
    "histogram",
    "last",
    "max",
    "mean",
    "min",
    "monoid",
    "only",
    "open",
    "quantiles",
    "stddev",
    "sum",
    "top",
    "variance",
    "window",
]
