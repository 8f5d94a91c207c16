"""The contract of a run: its request, its context and its report."""
