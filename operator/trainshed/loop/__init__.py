"""The clockwork: events in, keys round, one worker at a job."""
