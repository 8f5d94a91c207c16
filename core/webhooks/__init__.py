"""Webhooks: addresses that a project's events are sent to, signed as Standard Webhooks has it."""
