"""Packages: projects with their agents and categories, as a zip file that another instance imports."""
