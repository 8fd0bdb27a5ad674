"""`python -m tfxla_inspect`."""

from .cli import entry

if __name__ == "__main__":
    entry()
