"""Compares the simulated API server with a real one: the same random calls to both must have the same responses."""
