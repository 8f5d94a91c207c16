"""API keys and organizations."""
