"""``python -m shuffledp``: the same as the ``shuffledp`` command."""

import sys

from shuffledp.cli import main

if __name__ == "__main__":
    sys.exit(main())
