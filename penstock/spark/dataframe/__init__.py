"""Tables and views as DataFrames."""
