"""Sessions over TCP sockets, and the public API of sources and sinks."""

from penstock.connector.sockets.connector_sink import ConnectorSink
from penstock.connector.sockets.participant_server import ParticipantServer
from penstock.connector.sockets.session_socket import SessionSocket
from penstock.connector.sockets.socket_address import Backoff, connect_session
from penstock.connector.sockets.source_client import ConnectorSource

__all__ = ["Backoff", "ConnectorSink", "ConnectorSource", "ParticipantServer", "SessionSocket", "connect_session"]
