"""Golden sets: loading, checking, counting, showing and importing transcripts."""

from __future__ import annotations

from pipeline.golden.check import check
from pipeline.golden.complaints import Complaint, Severity
from pipeline.golden.load import GoldenSet, load
from pipeline.golden.manifest import write_manifest
from pipeline.golden.select import restrict, select

__all__ = ["Complaint", "GoldenSet", "Severity", "check", "load", "restrict", "select", "write_manifest"]
