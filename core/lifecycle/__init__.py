"""The life of an execution: submission, states, reports, events, usage, and the ticks that begin it."""
