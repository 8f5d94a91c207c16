"""SQL over an organization's datasets: names, gate, and DuckDB in query processes of its own."""
