"""Trino's SQL, checked and translated to DuckDB's: for queries of the service, and for pipelines that say so."""
