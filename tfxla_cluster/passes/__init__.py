"""HLO to HLO passes, one a file, and the runner that verifies, times and dumps them."""
