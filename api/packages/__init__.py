"""Packages of projects, and the links that carry them."""
