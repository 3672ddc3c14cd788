"""The store as upper rooms use it: its protocol, and the store in memory."""
