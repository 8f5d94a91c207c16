"""The stages that pipelines can have."""
