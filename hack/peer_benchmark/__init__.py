"""Compares the operator with training-operator 1.9.4 and with a client that only creates the same objects."""
