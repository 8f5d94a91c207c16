"""SQL over datasets."""
