"""Packages: projects with what they need, as one zip that another instance takes in."""
