"""Cloud credentials."""
