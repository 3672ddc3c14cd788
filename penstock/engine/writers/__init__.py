"""Writers of a store that this process or another one holds."""
