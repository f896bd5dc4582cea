"""Whether the simulated server is like the real one: the same random calls to both, and every answer compared."""
