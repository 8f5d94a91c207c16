"""What executions use and cost: measured by drivers, priced by a table, frozen when they end, added up by day."""
