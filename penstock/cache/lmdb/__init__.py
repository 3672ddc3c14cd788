"""The store on disk, built on LMDB."""
