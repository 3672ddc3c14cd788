"""Views: their definitions, and what readers of them get."""

from penstock.views.definitions import BROKER, App, Merge, Source, Table, View
from penstock.views.fields import (
    COMPARE,
    And,
    Compare,
    Family,
    Field,
    IsTrue,
    Not,
    Op,
    Or,
    Where,
    family_of,
    field,
    where_from,
)
from penstock.views.maps import FieldMap, FunctionMap, Key, MapFunction, Reduce, field_map_from
from penstock.views.paths import parse_path, reach
from penstock.views.protocols import Cell, Ints, Locals, Need, Part, Path, Reducer, State, Totals, Values
from penstock.views.reader import ViewReader
from penstock.views.results import KEPT, Counts, Rejection
from penstock.views.row import Row

__all__ = [
    "BROKER",
    "COMPARE",
    "KEPT",
    "And",
    "App",
    "Cell",
    "Compare",
    "Counts",
    "Family",
    "Field",
    "FieldMap",
    "FunctionMap",
    "Ints",
    "IsTrue",
    "Key",
    "Locals",
    "MapFunction",
    "Merge",
    "Need",
    "Not",
    "Op",
    "Or",
    "Part",
    "Path",
    "Reduce",
    "Reducer",
    "Rejection",
    "Row",
    "Source",
    "State",
    "Table",
    "Totals",
    "Values",
    "View",
    "ViewReader",
    "Where",
    "family_of",
    "field",
    "field_map_from",
    "parse_path",
    "reach",
    "where_from",
]
