"""Documents of office programs and PDF as rows, read in a process that can be ended."""
