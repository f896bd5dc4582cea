"""Whether the pods of a job fit into a cluster: quotas, limit ranges, nodes and queues; no clock, no network."""
