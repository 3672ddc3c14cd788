"""TLS of a server: its certificate, and the certificates of clients."""
