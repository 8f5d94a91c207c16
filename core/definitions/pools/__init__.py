"""Pools: limits of the executions that may run at once over all projects of an organization."""
