"""What pipelines can be made of."""
