"""AI providers: their models, trainings, estimates, data sets and published models."""
