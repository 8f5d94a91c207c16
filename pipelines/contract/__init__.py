"""The contract of a run: what it is told, what it may use, and what it has done."""
