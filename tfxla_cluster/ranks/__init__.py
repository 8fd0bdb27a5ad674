"""What the workers of a distribution strategy (ranks) tell each other before they compile."""
