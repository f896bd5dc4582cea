"""The rights of the operator and of users: RBAC, service accounts, admission policies, and linters for the chart."""
