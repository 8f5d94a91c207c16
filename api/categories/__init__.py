"""Categories."""
