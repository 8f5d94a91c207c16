"""An execution's life: accepted, launched, claimed, run, completed."""
