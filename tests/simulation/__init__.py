"""A Kubernetes API server that fits in the hand, and operators that run on it in a time of its own."""
