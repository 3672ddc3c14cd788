"""Read records from spouts: files, pipes and Kafka topics."""

from penstock.spout.envelope import Enveloped, opened
from penstock.spout.errors import SourceCut, SourceMissing, SourceMoved, SourceUnreadable, UnknownScheme, UriError
from penstock.spout.files.file_identity import Standing
from penstock.spout.files.line_files import FileSpout
from penstock.spout.files.parquet import ParquetSpout
from penstock.spout.files.path_spouts import FORMATS, STDIN, begun, file_size, format_of, open_file
from penstock.spout.kafka_group import KafkaMember, Members, joined
from penstock.spout.kafka_records import json_key
from penstock.spout.kafka_spout import LATEST, KafkaSpout, Range
from penstock.spout.listening_spout import ListeningSpout
from penstock.spout.protocol import Contract, Recall, Remembered, Spout, SpoutBatch
from penstock.spout.record import Record
from penstock.spout.uri_parts import Uri
from penstock.spout.uris.kafka_uri import moment_in, open_kafka
from penstock.spout.uris.spout_registry import SPOUTS, Registry, null_texts
from penstock.spout.uris.wallaroo_uri import address_in, cookie_in
from penstock.spout.wallaroo_records import MessageFormat
from penstock.spout.wallaroo_source_spout import WallarooSourceSpout
from penstock.spout.wallaroo_spout import WallarooSpout
from penstock.spout.wallaroo_state import StoredWorker, WorkerRow

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
    "ListeningSpout",
    "Members",
    "MessageFormat",
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
    "StoredWorker",
    "UnknownScheme",
    "Uri",
    "UriError",
    "WallarooSourceSpout",
    "WallarooSpout",
    "WorkerRow",
    "address_in",
    "begun",
    "cookie_in",
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
