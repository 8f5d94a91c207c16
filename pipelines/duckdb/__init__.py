"""DuckDB without access to files and network."""
