"""The driver of one execution: reads its spec, runs the pipeline, reports to the service."""
