"""Ask the process that holds a store to work on it."""

from penstock.remote.operation_writer import OperationWriter
from penstock.remote.operations import (
    COMPACT,
    COUNTS,
    METERS,
    OPERATIONS,
    PLAIN,
    TABLES,
    TAKE,
    Effect,
    MessageCodec,
    Operation,
    listed,
    operation,
)
from penstock.remote.remote_writer import RemoteWriter
from penstock.remote.server import BEAT, Server, drop_socket, take_socket
from penstock.remote.socket_wire import WireClosed
from penstock.remote.source_claims import SESSION, Claim, MemberClaim, ReaderClaim, claims, is_stopped
from penstock.remote.wire_messages import (
    batch_data,
    batch_of,
    early_data,
    early_of,
    error_data,
    error_of,
    production_data,
    production_of,
    repaired_data,
    repaired_of_data,
)
from penstock.remote.writer_protocol import HolderLost, HolderSilent, StoreWriter, post, split_reposts

__all__ = [
    "BEAT",
    "COMPACT",
    "COUNTS",
    "METERS",
    "OPERATIONS",
    "PLAIN",
    "SESSION",
    "TABLES",
    "TAKE",
    "Claim",
    "Effect",
    "HolderLost",
    "HolderSilent",
    "MemberClaim",
    "MessageCodec",
    "Operation",
    "OperationWriter",
    "ReaderClaim",
    "RemoteWriter",
    "Server",
    "StoreWriter",
    "WireClosed",
    "batch_data",
    "batch_of",
    "claims",
    "drop_socket",
    "early_data",
    "early_of",
    "error_data",
    "error_of",
    "is_stopped",
    "listed",
    "operation",
    "post",
    "production_data",
    "production_of",
    "repaired_data",
    "repaired_of_data",
    "split_reposts",
    "take_socket",
]
