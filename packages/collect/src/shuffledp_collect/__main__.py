"""Run the command with ``python -m shuffledp_collect``."""

import sys

from shuffledp_collect.cli import main

sys.exit(main())
