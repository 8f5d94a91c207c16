"""Inference: a prompt becomes selectors that are proven on pages which they were not made from."""
