"""First-party plugins, found by their entry points like any other plugin."""
