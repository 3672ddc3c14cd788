"""Spouts: where records come from."""

from penstock.spout.envelope import Enveloped, opened
from penstock.spout.errors import SourceCut, SourceMissing, SourceMoved, SourceUnreadable, UnknownScheme, UriError
from penstock.spout.files import FileSpout
from penstock.spout.identity import Standing
from penstock.spout.kafka import LATEST, KafkaSpout, Range
from penstock.spout.kafkagroup import KafkaMember, Members, joined
from penstock.spout.kafkashape import json_key
from penstock.spout.kafkauri import moment_in, open_kafka
from penstock.spout.opening import FORMATS, STDIN, begun, file_size, format_of, open_file
from penstock.spout.parquet import ParquetSpout
from penstock.spout.protocols import Contract, Recall, Remembered, Spout, SpoutBatch
from penstock.spout.record import Record
from penstock.spout.registry import SPOUTS, Registry, null_texts
from penstock.spout.uri import Uri

__all__ = [
    "FORMATS",
    "LATEST",
    "SPOUTS",
    "STDIN",
    "Contract",
    "Enveloped",
    "FileSpout",
    "KafkaMember",
    "KafkaSpout",
    "Members",
    "ParquetSpout",
    "Range",
    "Recall",
    "Record",
    "Registry",
    "Remembered",
    "SourceCut",
    "SourceMissing",
    "SourceMoved",
    "SourceUnreadable",
    "Spout",
    "SpoutBatch",
    "Standing",
    "UnknownScheme",
    "Uri",
    "UriError",
    "begun",
    "file_size",
    "format_of",
    "joined",
    "json_key",
    "moment_in",
    "null_texts",
    "open_file",
    "open_kafka",
    "opened",
]
