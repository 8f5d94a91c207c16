"""Python extensions of agents."""
