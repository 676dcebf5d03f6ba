"""A plugin of pytest (`-p tools.mutation.all_cases`): each property is tried on all of its cases, as by
`make test-long`.
"""

import os

os.environ["COTENANT_ALL_EXAMPLES"] = "1"
