"""Map and reduce: documents to columns, columns to contributions, contributions to rows of views."""

from penstock.mapreduce.columns.column import Column, Kind, lane_of, value_of
from penstock.mapreduce.columns.extract import key_lane, key_lanes
from penstock.mapreduce.columns.group_codes import BAD, MANY, NONE, Codes, Groups
from penstock.mapreduce.columns.items import Items, SourceKeys
from penstock.mapreduce.columns.key_ranges import Ranges, even_starts
from penstock.mapreduce.damage_places import view_places
from penstock.mapreduce.decode.column_transfer import Receiver, plan_data
from penstock.mapreduce.decode.decode_worker import ANSWER, REQUEST, Answer, Laid, serve, write_lines
from penstock.mapreduce.decode.decoder import Columns, Decoder, join_columns
from penstock.mapreduce.fold.accumulator_fold import Change, ReduceNode
from penstock.mapreduce.fold.feed_rows import (
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
from penstock.mapreduce.fold.group_sums import Delta, negated
from penstock.mapreduce.fold.row_format import RowCodec, RowState, same_result
from penstock.mapreduce.fold.small_fold import FewContributions, in_columns, of_yielded
from penstock.mapreduce.group_crossing import Crossing, Gathered, Part, is_sets, number_of, numbered, side_data, side_of
from penstock.mapreduce.hidden_generation import Building
from penstock.mapreduce.maps.contribution_deltas import DocumentContributions, SourceChange, Who, deltas_of
from penstock.mapreduce.maps.emissions import (
    Contributions,
    Emissions,
    Pairs,
    Sources,
    Yielded,
    emissions_row,
)
from penstock.mapreduce.maps.field_map import FieldMapper
from penstock.mapreduce.maps.field_plan import Plan, Spaces
from penstock.mapreduce.maps.function_map import FunctionMapper, Hold, copies
from penstock.mapreduce.maps.remembered_rows import held_row
from penstock.mapreduce.nodes.node_format import Cut, Node, packed, read_leaves
from penstock.mapreduce.nodes.node_levels import group_of as group_of_node
from penstock.mapreduce.nodes.node_log import parted_log
from penstock.mapreduce.pending_writes import RowDelta, Writes
from penstock.mapreduce.plain_index import IndexReduce, entries_of
from penstock.mapreduce.reducers.from_contributions import (
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
from penstock.mapreduce.reducers.invertible import count, group, histogram, mean, reducer_from, stddev, sum, variance
from penstock.mapreduce.reducers.user_group import UserGroup
from penstock.mapreduce.resting_documents import Holds, mark_resting, rest_rows, take_rows_again
from penstock.mapreduce.small_documents import DocumentReader, FewFields, Reading
from penstock.mapreduce.stored_codecs import StoredCodec, codec_from
from penstock.mapreduce.trees.node_sizes import small_trees
from penstock.mapreduce.trees.snapshot_nodes import behind_db, nodes_db
from penstock.mapreduce.trees.tree_check import TreeFault, check_trees
from penstock.mapreduce.trees.tree_fold import TreeReduce
from penstock.mapreduce.view_databases import held_db, resting_db, rows_db, told_db, view_dbs
from penstock.mapreduce.view_node import ViewNode, Watch
from penstock.mapreduce.why.contribution_search import FieldSearch, Hit, ToldSearch
from penstock.mapreduce.why.contribution_shape import Shape
from penstock.mapreduce.why.stored_contributions import Found, kept_contributions, kept_items

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
    "DocumentContributions",
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
    "SourceChange",
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
    "deltas_of",
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
    "read_feed",
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
