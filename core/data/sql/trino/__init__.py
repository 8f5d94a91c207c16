"""Trino as a SQL engine: the client, the registered tables, the access rules, and the engine itself."""
