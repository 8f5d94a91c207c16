"""SQL over an organization's datasets: names, statements and their checks, and the engine that runs them."""
