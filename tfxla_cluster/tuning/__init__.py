"""Tuning: the form of each kernel that is fastest on the machine, found by measuring, kept in files."""
