# SPDX-License-Identifier: Apache-2.0
"""has.py MODULE...: are all of them there? Does not import them: torch would
take a second."""
import importlib.util
import sys

sys.exit(not all(map(importlib.util.find_spec, sys.argv[1:])))
