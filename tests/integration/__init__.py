"""The whole operator on a real API server: its jobs, its life, and what others see of it."""
