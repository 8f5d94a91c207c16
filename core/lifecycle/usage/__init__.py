"""What an execution used and cost: measurements, prices, bills."""
