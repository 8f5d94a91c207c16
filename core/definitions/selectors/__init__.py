"""Proven selectors of an organization: files of its storage, which executions read and add to."""
