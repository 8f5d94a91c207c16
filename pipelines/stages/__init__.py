"""The stages; a new one is a new module here."""
