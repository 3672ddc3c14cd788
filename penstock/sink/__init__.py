"""Write the changes of views to sinks: files, Kafka topics, and programs of the Wallaroo connector protocol."""

from penstock.sink.change_lines import ENVELOPES
from penstock.sink.errors import SinkBehind, SinkBusy, SinkTaken
from penstock.sink.file_sink import STDOUT, FileSink, open_file
from penstock.sink.kafka_sink import KafkaSink, open_topic
from penstock.sink.position_order import width_of
from penstock.sink.protocol import Sink
from penstock.sink.view_sender import ViewSender
from penstock.sink.wallaroo_decisions import SinkLog
from penstock.sink.wallaroo_sink import WallarooSink
from penstock.sink.wallaroo_source_sink import WallarooSourceSink

__all__ = [
    "ENVELOPES",
    "STDOUT",
    "FileSink",
    "KafkaSink",
    "Sink",
    "SinkBehind",
    "SinkBusy",
    "SinkLog",
    "SinkTaken",
    "ViewSender",
    "WallarooSink",
    "WallarooSourceSink",
    "open_file",
    "open_topic",
    "width_of",
]
