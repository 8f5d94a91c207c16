"""Limits on slow requests that one process handles at the same time, per caller and in total."""

from __future__ import annotations

from core.infra.concurrency import ConcurrencyLimiter

# callers are organizations. Remote servers may be slow, and every request here holds one of the process's threads
OUTBOUND = ConcurrencyLimiter(4, 16, "Too many requests to other services are running. Try again in a moment.")
# more than the query processes: the rest waits in threads that all requests share
QUERIES = ConcurrencyLimiter(8, 16, "Too many queries are running. Try again in a moment.")
# a package in memory takes several times the size of its content
PACKAGES = ConcurrencyLimiter(4, 8, "Too many packages are being read. Try again in a moment.")
# an upload holds a file and a connection for as long as its sender likes
UPLOADS = ConcurrencyLimiter(8, 128, "Too many packages are being uploaded. Try again in a moment.")
# each holds a file, and at its end a process that converts it
DATASET_UPLOADS = ConcurrencyLimiter(4, 16, "Too many datasets are being uploaded. Try again in a moment.")
# each holds a process that reads a plugin
WHEEL_UPLOADS = ConcurrencyLimiter(2, 4, "Too many plugins are being uploaded. Try again in a moment.")
# each may hold a process that reads files
DOWNLOADS = ConcurrencyLimiter(8, 32, "Too many datasets are being downloaded. Try again in a moment.")
# each holds a connection of its client, but no thread
WAITS = ConcurrencyLimiter(200, 1000, "Too many requests are waiting for executions. Execute without `wait`.")
