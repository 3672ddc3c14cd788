"""Groups of calls of `Engine` by subject, its protocol with a store, and the parts of an unpartitioned store."""
