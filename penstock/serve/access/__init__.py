"""Access to the server: tokens, roles, permissions."""
