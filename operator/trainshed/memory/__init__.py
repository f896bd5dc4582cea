"""An API server in memory: `trainshed run` uses it without a cluster, and the simulation tests add faults to it.

`make sim-conformance` compares its responses with those of a real API server.
"""
