"""The commands of `spindle` by the things that they work on; a command imports its module when it runs."""
