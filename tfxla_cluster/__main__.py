"""`python -m tfxla_cluster`: says which commands there are."""

from __future__ import annotations

import sys

sys.exit("tfxla_cluster is a library. Run a program with it: tfxla-run python prog.py; see it work: tfxla-demo")
