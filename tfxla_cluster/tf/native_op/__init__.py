"""The native ops that run compiled code: registration, records and machine code."""
