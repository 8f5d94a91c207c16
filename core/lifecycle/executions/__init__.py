"""The life of an execution: accepted, launched, claimed, run, completed."""
