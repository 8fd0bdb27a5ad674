"""Machines that modules are compiled for, one a file: what `compiler` asks of each is `backend.Backend`."""
