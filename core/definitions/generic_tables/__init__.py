"""Generic tables: JSON documents of an organization, listed by pages with filters and order."""
