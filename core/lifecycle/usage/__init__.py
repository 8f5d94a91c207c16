"""Use and costs of an execution: measurements, prices, bills."""
