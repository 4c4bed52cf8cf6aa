"""Labels that people check: an audit of a random sample, a queue of suspects, kept decisions."""

from noisebound.review.audit import Audit as Audit
from noisebound.review.decisions import (
    Decision as Decision,
    DecisionFile as DecisionFile,
    ReviewedData as ReviewedData,
    Verdict as Verdict,
)
from noisebound.review.queue import ReviewQueue as ReviewQueue
