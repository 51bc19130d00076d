"""After a REJECT: which parts of the candidate hurt, on which turns, and which recipe to try next.

The baseline's own replies to the turns that the candidate lost are forced through both models; a part (what the
engine multiplies as one) is judged by how far the model's next-token distributions drift when it alone is the
candidate's. ``docs/diagnose.md`` has the method.
"""

from pipeline.diagnosis.diagnosing import DiagnosisResult, Wanted, diagnose
from pipeline.diagnosis.keeping import PAGE_FILE

__all__ = ["PAGE_FILE", "DiagnosisResult", "Wanted", "diagnose"]
