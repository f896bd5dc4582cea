"""Invariants V1 to V9, checked on every change in a cluster; independent of the operator's code.

`change` is its input, `records` its state. `unique_replicas`, `prerequisites`, `ownership`, `counters`, `conditions`,
`terminal_causes`, `leftovers`, `write_budget` and `final_state` are the checks; `auditor` runs them all.
"""
