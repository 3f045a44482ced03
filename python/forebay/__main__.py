"""``python -m forebay`` is the program ``forebay``."""

import sys

from .program.main import main

sys.exit(main())
