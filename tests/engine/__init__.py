"""The engine as a whole, through its public API, held to the oracle."""
