"""HTTP requests to addresses that users name: one guard, one libcurl handle, one wording of failures."""
