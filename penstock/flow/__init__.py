"""Streams and their low watermarks: which records a stream takes, and up to which time all of them have arrived."""

from penstock.flow.late_records import AsideRecord, read_late
from penstock.flow.protocol import Clock
from penstock.flow.recent_ids import ids_db
from penstock.flow.source_watermarks import SourceKind, kind_of_source
from penstock.flow.stream_node import HeldRecordLog, StreamNode
from penstock.flow.times import FAR, NEVER, micros_of_value, shown_time, time_text
from penstock.flow.watermark_report import SourceWatermark, Watermark, watermark_of
from penstock.flow.watermark_rows import SourceState, StreamState, WatermarkRow, read_watermarks
from penstock.flow.watermarks import PUT, SystemClock, Watermarks
from penstock.flow.window_closing import close_windows, final_number

__all__ = [
    "FAR",
    "NEVER",
    "PUT",
    "AsideRecord",
    "Clock",
    "HeldRecordLog",
    "SourceKind",
    "SourceState",
    "SourceWatermark",
    "StreamNode",
    "StreamState",
    "SystemClock",
    "Watermark",
    "WatermarkRow",
    "Watermarks",
    "close_windows",
    "final_number",
    "ids_db",
    "kind_of_source",
    "micros_of_value",
    "read_late",
    "read_watermarks",
    "shown_time",
    "time_text",
    "watermark_of",
]
