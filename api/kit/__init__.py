"""What every endpoint shares: errors, keys and scopes, schemas, pages."""
