"""People after their sign-in, and their own keys."""
