"""`python -m wakeline` is the command line."""

import sys

from wakeline.faces.cli.main import main

sys.exit(main())
