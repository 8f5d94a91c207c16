"""Python environments beside the engine's own: locked and installed by uv, kept in folders keyed by their content."""
