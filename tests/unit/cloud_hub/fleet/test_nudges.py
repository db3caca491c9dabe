"""A nudge for each device that has something waiting, and only one for many reasons at once."""

import asyncio
from pathlib import Path

from cloud_hub.fleet.nudges import Nudges
from cloud_hub.store.apply import touch_devices
from cloud_hub.store.database import writing


class Post:
    def __init__(self) -> None:
        self.subjects: list[str] = []

    def post(self, subject: str, body: bytes, headers=None) -> None:
        self.subjects.append(subject)


async def test_reasons_that_come_together_lead_to_one_nudge(tmp_path: Path):
    async with writing(f"sqlite+aiosqlite:///{tmp_path / 'hub.db'}") as database:
        await database.write(lambda c: touch_devices(c, ["d1", "d3"], seen_s=1.0))
        post = Post()
        nudges = Nudges(database=database, post=post)
        running = asyncio.create_task(nudges.run(), name="nudges")
        for device in ("d1", "d2", "d1"):
            nudges.want(device)
        await nudges.greet()
        async with asyncio.timeout(5):
            while len(post.subjects) < 3:
                await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.wait([running])
    assert post.subjects == [f"edge.v1.{name}.nudge" for name in ("d1", "d2", "d3")]
