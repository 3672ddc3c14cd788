"""Sinks: where the changes of views go."""

from penstock.sink.errors import SinkBehind, SinkBusy, SinkTaken
from penstock.sink.files import ENVELOPES, STDOUT, FileSink, open_file
from penstock.sink.kafka import KafkaSink, open_topic
from penstock.sink.protocols import Sink
from penstock.sink.standing import width_of

__all__ = [
    "ENVELOPES",
    "STDOUT",
    "FileSink",
    "KafkaSink",
    "Sink",
    "SinkBehind",
    "SinkBusy",
    "SinkTaken",
    "open_file",
    "open_topic",
    "width_of",
]
