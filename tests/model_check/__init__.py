"""Every order in which the events of a small world can happen, searched from its beginning to all of its ends."""
