"""DuckDB in query processes: the SqlEngine of a single machine."""
