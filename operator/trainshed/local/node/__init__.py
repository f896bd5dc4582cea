"""What a node does with the pods of a run: their containers, volumes, variables and statuses, and `kubectl exec`."""
