"""First-party plugins, each found by its entry point as anyone's would be."""
