"""Live updates as Server-Sent Events."""
