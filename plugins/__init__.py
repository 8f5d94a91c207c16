"""First-party plugins, registered by entry points in pyproject.toml like any other plugin.

They are released with the engine, so unlike others they may import from `pipelines`. Nothing imports them.
"""
