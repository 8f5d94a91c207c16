"""People who have signed in, and their own keys."""
