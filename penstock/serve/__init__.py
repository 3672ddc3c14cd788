"""Serve a store over the network: front processes that read, and the holder that writes."""

from penstock.serve.first_process import serve
from penstock.serve.server_settings import ListenAddress, NotLoopback, ServerSettings

__all__ = ["ListenAddress", "NotLoopback", "ServerSettings", "serve"]
