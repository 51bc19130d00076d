"""Inspecting a quantized checkpoint beside its baseline, before anything is served.

``inspect_artifact`` runs every check and returns its findings; :data:`CHECKS` names the checks.
``docs/artifact-checks.md`` says what each looks for and which public threads it comes from.
"""

from pipeline.inspection.findings import CHECKS, Finding, Severity

__all__ = ["CHECKS", "Finding", "Severity"]
