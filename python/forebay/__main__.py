"""``python -m forebay`` is the program ``forebay``."""

import sys

from .program import main

sys.exit(main())
