"""`python -m cotenant`: the command line without an installed script."""

import sys

from cotenant.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
