"""Profiles of the sizes that functions had, merged over runs and machines."""
