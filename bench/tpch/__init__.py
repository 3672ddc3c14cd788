"""TPC-H queries as views on joins, beside DuckDB, which computes each query again after each refresh."""
