"""Sessions over TCP sockets, and the public API of sources and sinks."""

from penstock.connector.sockets.acceptor_server import AcceptorServer
from penstock.connector.sockets.connector_sink import ConnectorSink
from penstock.connector.sockets.log_file import LONGEST_LOG, FileSystem, LogFile, make_folder, sync_folder
from penstock.connector.sockets.participant_server import ParticipantServer
from penstock.connector.sockets.session_server import SessionServer
from penstock.connector.sockets.session_socket import SessionSocket
from penstock.connector.sockets.socket_address import Backoff, connect_session
from penstock.connector.sockets.source_client import LARGEST_MESSAGE, MOST_WAITING, ConnectorSource
from penstock.connector.sockets.state_folder import WorkerLogs

__all__ = [
    "LARGEST_MESSAGE",
    "LONGEST_LOG",
    "MOST_WAITING",
    "AcceptorServer",
    "Backoff",
    "ConnectorSink",
    "ConnectorSource",
    "FileSystem",
    "LogFile",
    "ParticipantServer",
    "SessionServer",
    "SessionSocket",
    "WorkerLogs",
    "connect_session",
    "make_folder",
    "sync_folder",
]
