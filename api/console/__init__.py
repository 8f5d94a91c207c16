"""The console: pages for people, rendered from the operations of the REST API."""
