"""What no other floor uses: declarations, packages, webhooks."""
