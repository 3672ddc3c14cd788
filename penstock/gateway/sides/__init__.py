"""The documents of tables as sides of joins."""
