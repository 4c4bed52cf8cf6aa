"""Labels that people check: an audit of a random sample, a queue of suspects, kept decisions."""

from noisebound.review.audit import Audit, AuditResult
from noisebound.review.decisions import Decision, DecisionFile, ReviewedData, Verdict
from noisebound.review.queue import ReviewQueue, Suspect

__all__ = [
    "Audit",
    "AuditResult",
    "Decision",
    "DecisionFile",
    "ReviewQueue",
    "ReviewedData",
    "Suspect",
    "Verdict",
]
