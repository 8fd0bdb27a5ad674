"""Module -> the test files under tests/ that exercise it, of what reports are made of."""

from __future__ import annotations

REPORTS: dict[str, str] = {
    "tfxla_inspect.autotune_page": "inspect/test_autotune_page.py",
    "tfxla_inspect.findings": "inspect/test_findings.py inspect/test_report.py",
    "tfxla_inspect.findings_page": "inspect/test_findings.py inspect/test_report.py",
    "tfxla_inspect.fusions": "inspect/test_findings.py inspect/test_report.py",
    "tfxla_inspect.graph_measures": "inspect/test_report.py inspect/test_browser.py",
    "tfxla_inspect.kernel_facts": "inspect/test_report.py inspect/test_browser.py",
    "tfxla_inspect.kernel_times": "inspect/test_findings.py inspect/test_report.py",
    "tfxla_inspect.module_summary": "cli/test_output_file.py inspect/test_report.py",
    "tfxla_inspect.measures": "inspect/test_findings.py inspect/test_report.py",
    "tfxla_inspect.occupancy": "inspect/test_occupancy.py",
    "tfxla_inspect.parsers.cubin": "inspect/test_occupancy.py",
    "tfxla_inspect.parsers.shapes": "inspect/test_findings.py inspect/test_report.py",
}
