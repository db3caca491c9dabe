"""Measuring tools: benchmarks that print JSON, and the real servers that they, tests and demo run.

Part of the repository, not of the installed distribution.
"""
