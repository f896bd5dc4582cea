"""What the planner decided and why: kept as it saw it, planned again, and told in sentences."""
