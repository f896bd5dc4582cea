"""Hours of small jobs and random faults, with two replicas of the operator and a real API server."""
