"""`python -m sail` is the command `sail`."""

import sys

from sail.cli import main

sys.exit(main())
