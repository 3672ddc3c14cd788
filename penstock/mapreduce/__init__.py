"""Map and reduce: documents to columns, columns to contributions, contributions to rows of views."""

from penstock.mapreduce.column import Column, Kind
from penstock.mapreduce.decoder import Columns, Decoder, join_columns
from penstock.mapreduce.emission import Contributions, Emissions, Pairs, emissions_row, read_emissions
from penstock.mapreduce.extract import key_lanes
from penstock.mapreduce.fieldmap import FieldMapper
from penstock.mapreduce.funcmap import FunctionMapper, Hold
from penstock.mapreduce.groups import BAD, MANY, NONE, Codes, Groups
from penstock.mapreduce.plan import Plan, Spaces
from penstock.mapreduce.reduce import Change, ReduceNode
from penstock.mapreduce.reducers import count, group, histogram, mean, reducer_from, stddev, sum, variance
from penstock.mapreduce.rowcodec import RowCodec, RowState, same_result
from penstock.mapreduce.shipping import Receiver, plan_data
from penstock.mapreduce.viewnode import ViewNode, Writes, held_db, read_held, rows_db, told_db
from penstock.mapreduce.worker import ANSWER, REQUEST, Answer, serve, write_lines

__all__ = [
    "ANSWER",
    "BAD",
    "MANY",
    "NONE",
    "REQUEST",
    "Answer",
    "Change",
    "Codes",
    "Column",
    "Columns",
    "Contributions",
    "Decoder",
    "Emissions",
    "FieldMapper",
    "FunctionMapper",
    "Groups",
    "Hold",
    "Kind",
    "Pairs",
    "Plan",
    "Receiver",
    "ReduceNode",
    "RowCodec",
    "RowState",
    "Spaces",
    "ViewNode",
    "Writes",
    "count",
    "emissions_row",
    "group",
    "held_db",
    "histogram",
    "join_columns",
    "key_lanes",
    "mean",
    "plan_data",
    "read_emissions",
    "read_held",
    "reducer_from",
    "rows_db",
    "same_result",
    "serve",
    "stddev",
    "sum",
    "told_db",
    "variance",
    "write_lines",
]
