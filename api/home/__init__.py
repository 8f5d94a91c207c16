"""The page at the root of the server."""
