"""Which nodes are compiled together, why the others are not, and the clusters put into the graph."""
