"""``python -m noisebound``."""

from noisebound.cli import main

main()
