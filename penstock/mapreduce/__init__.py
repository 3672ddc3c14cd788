"""Map and reduce: documents to columns, columns to contributions, contributions to rows of views."""

from penstock.mapreduce.columns.column import Column, LaneKind, lane_of, value_of
from penstock.mapreduce.columns.group_codes import BAD, MANY, NONE, Codes, Groups
from penstock.mapreduce.columns.items import Items, SourceKeys
from penstock.mapreduce.columns.partition_ranges import KeyRanges, even_starts
from penstock.mapreduce.columns.text_pool import PooledTexts, TextPool
from penstock.mapreduce.columns.value_columns import condition, group_codes, key_lane, key_lanes
from penstock.mapreduce.damage_places import view_labels
from penstock.mapreduce.decode.column_transfer import Receiver, plan_data
from penstock.mapreduce.decode.decode_worker import ANSWER, REQUEST, Answer, JoinedLines, serve, write_lines
from penstock.mapreduce.decode.decoder import DecodedColumns, Decoder, join_columns
from penstock.mapreduce.fold.accumulator_fold import GroupChanges, ReduceNode
from penstock.mapreduce.fold.feed_rows import (
    FEED,
    FeedChanges,
    ResultChanges,
    RowReading,
    feed_counts,
    feed_key,
    feed_row,
    read_feed,
    read_result_changes,
    result_changes,
    selected_changes,
)
from penstock.mapreduce.fold.group_deltas import Delta, negated
from penstock.mapreduce.fold.row_format import RowCodec, RowState, same_result
from penstock.mapreduce.fold.small_fold import FewContributions, in_columns, of_yielded
from penstock.mapreduce.group_crossing import (
    GroupCrossing,
    Part,
    TransactionContributions,
    entries_part,
    is_entries,
    is_sets,
    number_of,
    numbered,
    side_data,
    side_of,
)
from penstock.mapreduce.hidden_generation import HiddenGeneration
from penstock.mapreduce.maps.contribution_deltas import DocumentContributions, SourceChange, Who, deltas_of, places_of
from penstock.mapreduce.maps.emissions import (
    Contributions,
    ContributionSources,
    Emissions,
    Pairs,
    Yielded,
    emissions_row,
)
from penstock.mapreduce.maps.field_map import FieldColumns, FieldMapper
from penstock.mapreduce.maps.field_plan import FieldPlan, Spaces
from penstock.mapreduce.maps.function_map import FunctionMapper, Hold, copies
from penstock.mapreduce.maps.held_rows import Held, held_row
from penstock.mapreduce.nodes.node_format import Cut, Node, packed, read_leaves
from penstock.mapreduce.nodes.node_levels import group_of as group_of_node
from penstock.mapreduce.nodes.node_log import log_by_owner
from penstock.mapreduce.parent_rows import RowDelta
from penstock.mapreduce.pending_writes import Writes
from penstock.mapreduce.plain_index import IndexReduce, entries_of
from penstock.mapreduce.reducers.from_contributions import (
    bottom,
    collect,
    distinct,
    max,
    min,
    monoid,
    quantiles,
    top,
)
from penstock.mapreduce.reducers.invertible import count, group, histogram, mean, reducer_from, stddev, sum, variance
from penstock.mapreduce.reducers.single_values import all, any, argmax, argmin, first, last, only
from penstock.mapreduce.reducers.user_group import UserGroup
from penstock.mapreduce.resting_parent_rows import Holds, mark_resting, refresh_rows, rest_rows
from penstock.mapreduce.small_documents import DocumentFields, DocumentReader, FewFields
from penstock.mapreduce.stored_codecs import StoredCodec, codec_from
from penstock.mapreduce.trees.node_sizes import small_trees
from penstock.mapreduce.trees.snapshot_nodes import node_log_db, nodes_db
from penstock.mapreduce.trees.tree_check import TreeFault, check_trees
from penstock.mapreduce.trees.tree_fold import TreeReduce
from penstock.mapreduce.view_databases import emissions_db, held_db, late_db, resting_db, rows_db, view_dbs
from penstock.mapreduce.view_node import ViewNode, Watch, codec_of
from penstock.mapreduce.why.contribution_search import EmissionSearch, FieldSearch, Hit
from penstock.mapreduce.why.contribution_shape import ContributionShape
from penstock.mapreduce.why.stored_contributions import Found, stored_contributions, stored_items

__all__ = [
    "ANSWER",
    "BAD",
    "FEED",
    "MANY",
    "NONE",
    "REQUEST",
    "Answer",
    "Codes",
    "Column",
    "ContributionShape",
    "ContributionSources",
    "Contributions",
    "Cut",
    "DecodedColumns",
    "Decoder",
    "Delta",
    "DocumentContributions",
    "DocumentFields",
    "DocumentReader",
    "EmissionSearch",
    "Emissions",
    "FeedChanges",
    "FewContributions",
    "FewFields",
    "FieldColumns",
    "FieldMapper",
    "FieldPlan",
    "FieldSearch",
    "Found",
    "FunctionMapper",
    "GroupChanges",
    "GroupCrossing",
    "Groups",
    "Held",
    "HiddenGeneration",
    "Hit",
    "Hold",
    "Holds",
    "IndexReduce",
    "Items",
    "JoinedLines",
    "KeyRanges",
    "LaneKind",
    "Node",
    "Pairs",
    "Part",
    "PooledTexts",
    "Receiver",
    "ReduceNode",
    "ResultChanges",
    "RowCodec",
    "RowDelta",
    "RowReading",
    "RowState",
    "SourceChange",
    "SourceKeys",
    "Spaces",
    "StoredCodec",
    "TextPool",
    "TransactionContributions",
    "TreeFault",
    "TreeReduce",
    "UserGroup",
    "ViewNode",
    "Watch",
    "Who",
    "Writes",
    "Yielded",
    "all",
    "any",
    "argmax",
    "argmin",
    "bottom",
    "check_trees",
    "codec_from",
    "codec_of",
    "collect",
    "condition",
    "copies",
    "count",
    "deltas_of",
    "distinct",
    "emissions_db",
    "emissions_row",
    "entries_of",
    "entries_part",
    "even_starts",
    "feed_counts",
    "feed_key",
    "feed_row",
    "first",
    "group",
    "group_codes",
    "group_of_node",
    "held_db",
    "held_row",
    "histogram",
    "in_columns",
    "is_entries",
    "is_sets",
    "join_columns",
    "key_lane",
    "key_lanes",
    "lane_of",
    "last",
    "late_db",
    "log_by_owner",
    "mark_resting",
    "max",
    "mean",
    "min",
    "monoid",
    "negated",
    "node_log_db",
    "nodes_db",
    "number_of",
    "numbered",
    "of_yielded",
    "only",
    "packed",
    "places_of",
    "plan_data",
    "quantiles",
    "read_feed",
    "read_leaves",
    "read_result_changes",
    "reducer_from",
    "refresh_rows",
    "rest_rows",
    "resting_db",
    "result_changes",
    "rows_db",
    "same_result",
    "selected_changes",
    "serve",
    "side_data",
    "side_of",
    "small_trees",
    "stddev",
    "stored_contributions",
    "stored_items",
    "sum",
    "top",
    "value_of",
    "variance",
    "view_dbs",
    "view_labels",
    "write_lines",
]
