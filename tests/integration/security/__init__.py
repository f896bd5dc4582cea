"""What the chart gives the operator and keeps from people: rights, service accounts, and what linters say of it all."""
