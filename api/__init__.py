"""The REST interface: HTTP only; its work is core's."""
