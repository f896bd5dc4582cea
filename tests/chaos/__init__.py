"""Faults at every request of the operator to a real API server.

`support.fault_proxy` stands between the two. `write_faults` and `watch_faults` are the faults, `workloads` the jobs;
`history` keeps every version of every object. A `run` is one job with an operator of its own; a `trial` is the run of
one workload with a fault at one point, and `campaign` does many trials.
"""
