"""Spark as this instance has it: facts, and whether a session can be had."""
