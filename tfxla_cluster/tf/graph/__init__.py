"""A graph as the passes see it: nodes by position, op groups, when a node runs."""
