"""Runs jobs on this machine without a cluster: the operator's controller on an API server and a kubelet in memory."""
