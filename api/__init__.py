"""The REST interface: HTTP only; what it does is core's."""
