# SPDX-License-Identifier: Apache-2.0
import sys

from caisson_mcp.launcher import main

sys.exit(main())
