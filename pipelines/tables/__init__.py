"""Delta and Iceberg tables: one commit writes a version, which readers see whole or not at all."""
