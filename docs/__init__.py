"""The documents; `docs/generate.py` makes docs/reference/ from the code."""
