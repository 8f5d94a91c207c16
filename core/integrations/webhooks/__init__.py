"""Webhooks: a project's events, posted to the addresses that its users name and signed by Standard Webhooks."""
