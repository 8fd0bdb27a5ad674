"""Which instructions become one kernel: legality, cost, planner."""
