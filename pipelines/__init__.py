"""Engine of Spindle: checks, plans and runs pipelines on Spark. `spindle` has its public names."""
