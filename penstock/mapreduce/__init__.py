"""Map and reduce: documents to columns, columns to contributions, contributions to rows of views."""

from penstock.mapreduce.behind import parted_log
from penstock.mapreduce.building import Building
from penstock.mapreduce.codecs import StoredCodec, codec_from
from penstock.mapreduce.column import Column, Kind, lane_of, value_of
from penstock.mapreduce.crossing import (
    Crossing,
    Gathered,
    Part,
    is_sets,
    number_of,
    numbered,
    side_data,
    side_of,
)
from penstock.mapreduce.databases import held_db, resting_db, rows_db, told_db, view_dbs
from penstock.mapreduce.decoder import Columns, Decoder, join_columns
from penstock.mapreduce.deltas import Delta, negated
from penstock.mapreduce.emission import (
    Contributions,
    Emissions,
    Pairs,
    Sources,
    Yielded,
    emissions_row,
    read_emissions,
)
from penstock.mapreduce.extract import key_lane, key_lanes
from penstock.mapreduce.feed import (
    FEED,
    Fed,
    RowReading,
    Told,
    fed_told,
    feed_counts,
    feed_key,
    feed_row,
    read_feed,
    read_told,
)
from penstock.mapreduce.few import DocumentReader, FewFields, Reading
from penstock.mapreduce.fewfold import FewContributions, in_columns, of_yielded
from penstock.mapreduce.fieldmap import FieldMapper
from penstock.mapreduce.funcmap import FunctionMapper, Hold, copies
from penstock.mapreduce.groups import BAD, MANY, NONE, Codes, Groups
from penstock.mapreduce.heldrows import held_row, read_held
from penstock.mapreduce.indexed import IndexReduce, entries_of
from penstock.mapreduce.items import Items, SourceKeys
from penstock.mapreduce.kept import Found, kept_contributions, kept_items
from penstock.mapreduce.noderow import Cut, Node, packed, read_leaves
from penstock.mapreduce.nodes import group_of as group_of_node
from penstock.mapreduce.places import view_places
from penstock.mapreduce.plan import Plan, Spaces
from penstock.mapreduce.ranges import Ranges, even_starts
from penstock.mapreduce.reduce import Change, ReduceNode
from penstock.mapreduce.reducers import count, group, histogram, mean, reducer_from, stddev, sum, variance
from penstock.mapreduce.resting import Holds, mark_resting, rest_rows, take_rows_again
from penstock.mapreduce.rowcodec import RowCodec, RowState, same_result
from penstock.mapreduce.search import FieldSearch, Hit, ToldSearch
from penstock.mapreduce.shape import Shape
from penstock.mapreduce.shipping import Receiver, plan_data
from penstock.mapreduce.smalltrees import small_trees
from penstock.mapreduce.tree import TreeReduce
from penstock.mapreduce.treecheck import TreeFault, check_trees
from penstock.mapreduce.treenodes import behind_db, nodes_db
from penstock.mapreduce.treereducers import (
    bottom,
    collect,
    distinct,
    first,
    last,
    max,
    min,
    monoid,
    quantiles,
    top,
)
from penstock.mapreduce.usergroup import UserGroup
from penstock.mapreduce.viewnode import ViewNode, Watch, Who
from penstock.mapreduce.worker import ANSWER, REQUEST, Answer, Laid, serve, write_lines
from penstock.mapreduce.writes import RowDelta, Writes

__all__ = [
    "ANSWER",
    "BAD",
    "FEED",
    "MANY",
    "NONE",
    "REQUEST",
    "Answer",
    "Building",
    "Change",
    "Codes",
    "Column",
    "Columns",
    "Contributions",
    "Crossing",
    "Cut",
    "Decoder",
    "Delta",
    "DocumentReader",
    "Emissions",
    "Fed",
    "FewContributions",
    "FewFields",
    "FieldMapper",
    "FieldSearch",
    "Found",
    "FunctionMapper",
    "Gathered",
    "Groups",
    "Hit",
    "Hold",
    "Holds",
    "IndexReduce",
    "Items",
    "Kind",
    "Laid",
    "Node",
    "Pairs",
    "Part",
    "Plan",
    "Ranges",
    "Reading",
    "Receiver",
    "ReduceNode",
    "RowCodec",
    "RowDelta",
    "RowReading",
    "RowState",
    "Shape",
    "SourceKeys",
    "Sources",
    "Spaces",
    "StoredCodec",
    "Told",
    "ToldSearch",
    "TreeFault",
    "TreeReduce",
    "UserGroup",
    "ViewNode",
    "Watch",
    "Who",
    "Writes",
    "Yielded",
    "behind_db",
    "bottom",
    "check_trees",
    "codec_from",
    "collect",
    "copies",
    "count",
    "distinct",
    "emissions_row",
    "entries_of",
    "even_starts",
    "fed_told",
    "feed_counts",
    "feed_key",
    "feed_row",
    "first",
    "group",
    "group_of_node",
    "held_db",
    "held_row",
    "histogram",
    "in_columns",
    "is_sets",
    "join_columns",
    "kept_contributions",
    "kept_items",
    "key_lane",
    "key_lanes",
    "lane_of",
    "last",
    "mark_resting",
    "max",
    "mean",
    "min",
    "monoid",
    "negated",
    "nodes_db",
    "number_of",
    "numbered",
    "of_yielded",
    "packed",
    "parted_log",
    "plan_data",
    "quantiles",
    "read_emissions",
    "read_feed",
    "read_held",
    "read_leaves",
    "read_told",
    "reducer_from",
    "rest_rows",
    "resting_db",
    "rows_db",
    "same_result",
    "serve",
    "side_data",
    "side_of",
    "small_trees",
    "stddev",
    "sum",
    "take_rows_again",
    "told_db",
    "top",
    "value_of",
    "variance",
    "view_dbs",
    "view_places",
    "write_lines",
]
