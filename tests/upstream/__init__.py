"""Runs LangGraph's own test suites through Pyrula: ``python -m tests.upstream``."""
