"""The engine on Spark: passes over rows in Python workers, exchanges of links between them."""
