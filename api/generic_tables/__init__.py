"""Generic tables of an organization."""
