"""An auditor of everything that happens in a cluster: it knows the API and the promises, and nothing of the operator.

`change` is what it is fed with, `ledger` what it writes down, and each of `seats`, `prerequisites`, `strangers`,
`counters`, `verdicts`, `leftovers`, `thrift` and `ending` is a family of oracles; `auditor` asks them all.
"""
