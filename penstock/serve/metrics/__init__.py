"""The metrics of a server in the formats of Prometheus."""
