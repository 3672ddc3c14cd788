"""Use a store over the network: the calls of an engine, to a server of `penstock serve`."""

from penstock.client.async_client import AsyncClient
from penstock.client.client_options import ClientTls
from penstock.client.service_error import ServiceError
from penstock.client.sync_client import ServiceClient as Client

__all__ = ["AsyncClient", "Client", "ClientTls", "ServiceError"]
