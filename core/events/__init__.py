"""Events: what executions go through, for those who watch and those who are told."""
