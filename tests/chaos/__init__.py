"""Fault plans: the operator, a process of its own, through every fault at every one of its requests to a real server.

`proxy` stands between the two and names and counts what passes. `blows` is what may happen to a write, `streams` what
may happen to a watch. `workloads` are lives of jobs, `kubelet` plays their pods, and `chronicle` keeps every version of
every object. In a `play` a job, an operator and its porter are alone; a `trial` is a play of one workload with a fault
at one point; and `campaign` runs them all.
"""
