"""Writes docs/capabilities.schema.json, the JSON Schema of what ``describe`` answers.

``python tools/capabilities_schema.py``. In: the dataclasses of zellige.plugin.capabilities. Out: the file; a test compares the two.
"""

from __future__ import annotations

import json
from pathlib import Path

from zellige.plugin.schema import capabilities_schema

FILE = Path(__file__).parents[1] / "docs" / "capabilities.schema.json"

if __name__ == "__main__":
    FILE.write_text(json.dumps(capabilities_schema(), indent=1) + "\n", encoding="utf-8")
