"""The driver process of one execution: read the spec, run the pipeline, report to the service."""
