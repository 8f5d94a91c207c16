"""Shared by every endpoint: errors, keys and scopes, schemas, pages."""
