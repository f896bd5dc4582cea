"""Seeded bugs: faults of peers and of our own invention, put in one at a time; whatever lets one live is no test."""
