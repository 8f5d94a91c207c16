"""Language models: a client of two protocols, with answers checked against a schema, and budgets."""
