"""The domain: metadata, executions, storage, SQL. No HTTP, no Dagster."""
