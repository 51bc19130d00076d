"""What people read: terminal summary, Markdown summary and HTML report."""

from pipeline.reporting.facts import RunFacts
from pipeline.reporting.terminal import summary

__all__ = ["RunFacts", "summary"]
