"""Notifications: messages to people about a project's jobs, by the rules that its users write."""
