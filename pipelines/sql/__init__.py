"""SQL of pipelines, checked and traced, and Trino's SQL, checked and translated to DuckDB's."""
