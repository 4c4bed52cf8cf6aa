"""A person's part: a sample is audited, suspects are reviewed, and every decision is kept."""

from noisebound.review.audit import Audit, AuditResult
from noisebound.review.decisions import Decision, DecisionFile, Verdict
from noisebound.review.queue import ReviewQueue, Suspect
from noisebound.review.reviewed_data import ReviewedData

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
