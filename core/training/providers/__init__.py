"""Providers that train models, one module each, behind the protocol in `protocol.py`."""
