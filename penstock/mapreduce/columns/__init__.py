"""Values and groups as columns."""
