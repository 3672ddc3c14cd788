"""Look after the files of one store."""
