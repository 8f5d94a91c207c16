"""Generic tables: rows that are JSON documents, listed by pages with filters and order."""
