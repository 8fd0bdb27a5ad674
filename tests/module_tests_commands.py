"""The rows of `module_tests` that are about commands of tfxla_inspect and what they run."""

from __future__ import annotations

COMMANDS: dict[str, str] = {
    "tfxla_cluster.replay": "replay/test_rerun.py",
    "tfxla_cluster.replay.arrays": "cli/test_exec.py replay/test_rerun.py",
    "tfxla_cluster.replay.edited": "replay/test_rerun.py",
    "tfxla_cluster.replay.module_file": "cli/test_bad_input.py replay/test_rerun.py",
    "tfxla_cluster.replay.rerun": "replay/test_rerun.py",
    "tfxla_cluster.replay.runs": "cli/test_exec.py replay/test_rerun.py",
    "tfxla_cluster.replay.stages": "cli/test_exec.py replay/test_rerun.py",
    "tfxla_cluster.replay.trials": "replay/test_rerun.py",
    "tfxla_cluster.replay.verdicts": "cli/test_exec.py replay/test_rerun.py",
    "tfxla_cluster.replay.xla": "replay/test_rerun.py test_oracle.py",
    "tfxla_inspect.commands": "inspect/test_cli.py",
    "tfxla_inspect.commands.autotune": "inspect/test_autotuning.py",
    "tfxla_inspect.commands.cache": "inspect/test_stores.py",
    "tfxla_inspect.commands.command": "inspect/test_cli.py",
    "tfxla_inspect.commands.diff": "inspect/test_diff.py",
    "tfxla_inspect.commands.numbers": "inspect/test_cli.py",
    "tfxla_inspect.commands.pgo": "inspect/test_profiles.py",
    "tfxla_inspect.commands.replay": "replay/test_rerun.py",
    "tfxla_inspect.commands.report": "inspect/test_cli.py",
    "tfxla_inspect.commands.table": "inspect/test_cli.py",
}
