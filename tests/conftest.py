import os

from hypothesis import settings

# Timing is never asserted; in CI the same examples are drawn each time.
settings.register_profile("noisebound", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("noisebound")
