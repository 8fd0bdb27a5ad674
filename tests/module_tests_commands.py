"""The rows of `module_tests` that are about commands of tfxla_inspect and what they run."""

from __future__ import annotations

COMMANDS: dict[str, str] = {
    "tfxla_inspect.commands": "inspect/test_cli.py",
    "tfxla_inspect.commands.autotune": "inspect/test_autotuning.py",
    "tfxla_inspect.commands.cache": "inspect/test_stores.py",
    "tfxla_inspect.commands.command": "inspect/test_cli.py",
    "tfxla_inspect.commands.diff": "inspect/test_diff.py",
    "tfxla_inspect.commands.pgo": "inspect/test_profiles.py",
    "tfxla_inspect.commands.report": "inspect/test_cli.py",
    "tfxla_inspect.commands.table": "inspect/test_cli.py",
}
