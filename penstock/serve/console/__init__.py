"""The console: pages of a store for a browser, each with a JSON twin."""
