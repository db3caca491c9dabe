"""`edge-agent` with a model that never returns while the file in BLOCK_WHILE exists: for journeys only."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from edge_agent.cli import main
from edge_agent.pipeline.judging import KindJudge

_judge = KindJudge.judge
_GATE = Path(os.environ["BLOCK_WHILE"])


def _blocking(self: KindJudge, *args: Any, **kwargs: Any) -> Any:
    while _GATE.exists():
        time.sleep(0.05)
    return _judge(self, *args, **kwargs)


KindJudge.judge = _blocking  # type: ignore[method-assign]
if __name__ == "__main__":
    sys.exit(main())
