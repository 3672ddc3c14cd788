"""Implement the store on disk with LMDB."""
