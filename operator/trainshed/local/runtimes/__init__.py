"""What runs the containers of pods: the protocol that the node speaks, and the ways to run them on this machine."""
