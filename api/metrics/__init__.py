"""Usage and costs of executions."""
