"""The commands of `spindle` by what they work on; each imports its module when it runs."""
