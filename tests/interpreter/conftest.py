"""Makes the helper module of this folder importable under its own name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
