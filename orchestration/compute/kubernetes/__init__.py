"""Compute on Kubernetes: a pod is the driver of one attempt."""
