"""Copy, check and lock the files of a store."""
