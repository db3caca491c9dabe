"""The threads for what would hold up the event loop: taken at the start, while there still are some.

A pool that grows when it is busy fails just when the machine is in trouble: where no thread can be
started, `asyncio.to_thread` raises in whatever part of the agent asked. This one has all of its threads
from the beginning, and never asks again.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Final

THREADS: Final = 4
_START_S: Final = 10.0


async def reserve_threads(count: int = THREADS) -> None:
    """Gives the running loop a pool whose threads all run; raises RuntimeError where there are none.

    What is handed to a busy pool waits for its turn; the loop ends the pool with itself.
    """
    pool = ThreadPoolExecutor(max_workers=count, thread_name_prefix="agent")
    all_here = threading.Barrier(count)
    loop = asyncio.get_running_loop()
    await asyncio.gather(
        *(loop.run_in_executor(pool, all_here.wait, _START_S) for _ in range(count))
    )
    loop.set_default_executor(pool)
