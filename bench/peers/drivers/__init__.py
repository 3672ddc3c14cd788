"""The drivers of the peers, one program each. A driver runs in the environment of its peer."""
