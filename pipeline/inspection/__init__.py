"""Inspecting a quantized checkpoint beside its baseline, before anything is served.

:func:`inspect_artifact` runs every check and returns its findings; :data:`CHECKS` names the checks.
``docs/artifact-checks.md`` says what each looks for and which public threads it comes from.
"""

from pipeline.inspection.findings import CHECKS, Finding, Severity
from pipeline.inspection.hardware import Hardware, load_hardware
from pipeline.inspection.inspecting import inspect_artifact

__all__ = ["CHECKS", "Finding", "Hardware", "Severity", "inspect_artifact", "load_hardware"]
