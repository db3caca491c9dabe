"""What stands where the outbox's files should be: each case has a defined way on, and one clear event."""

import asyncio
import os
import pwd
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from contract.messages import Gap, Watermark
from contract.status import Lane, RowClass
from edge_agent.types import Commit, NewRow
from tests.architecture.tree import ROOT
from tests.unit.edge_agent.outbox.conftest import raw, until, whole_round
from tests.unit.edge_agent.outbox.ledger import gaps_of, rows_of

OLDER = """
CREATE TABLE tel (seq INTEGER PRIMARY KEY, body BLOB);
CREATE TABLE head (id INTEGER PRIMARY KEY, body BLOB NOT NULL, sum INTEGER NOT NULL);
INSERT INTO tel VALUES (1, x'00');
"""
FOREIGN = "CREATE TABLE songs (title TEXT); INSERT INTO songs VALUES ('Skerryvore');"


def aside(folder: Path, name: str) -> list[Path]:
    return [path for path in folder.iterdir() if path.name.startswith(f"{name}.corrupt-")]


def made_of(script: str, path: Path) -> None:
    for old in path.parent.glob(f"{path.name}*"):
        old.unlink()
    db = sqlite3.connect(path)
    db.executescript(script)
    db.close()


@pytest.mark.parametrize("name", ["spool.db", "state.db"])
@pytest.mark.parametrize("script", [OLDER, FOREIGN], ids=["older", "foreign"])
async def test_a_file_of_another_schema_is_set_aside_or_taken_over(
    open_outbox, tmp_path, name, script
):
    folder = tmp_path / "outbox"
    folder.mkdir()
    await asyncio.to_thread(made_of, script, folder / name)
    outbox = await open_outbox()
    assert await outbox.submit(Commit(rows=(raw(),))) == 1
    assert [row.seq for row in await rows_of(outbox)] == [1]
    if script == OLDER and name == "spool.db":
        assert len(aside(folder, name)) == 1


async def test_a_state_file_with_other_columns_is_set_aside_and_the_spool_goes_on(
    open_outbox, tmp_path
):
    outbox = await open_outbox()
    await outbox.submit(Commit(rows=(raw(),) * 3))
    await outbox.close()
    folder = tmp_path / "outbox"
    other = "CREATE TABLE marks (lane TEXT); CREATE TABLE identity (k TEXT);"
    await asyncio.to_thread(made_of, other, folder / "state.db")
    outbox = await open_outbox()
    assert len(aside(folder, "state.db")) == 1
    assert aside(folder, "spool.db") == []
    assert await outbox.submit(Commit(rows=(raw(),))) == 4


@pytest.mark.parametrize("name", ["spool.db", "state.db"])
async def test_a_folder_in_the_place_of_a_file_is_set_aside(open_outbox, tmp_path, name):
    (tmp_path / "outbox" / name / "inside").mkdir(parents=True)
    outbox = await open_outbox()
    assert await outbox.submit(Commit(rows=(raw(),))) == 1
    (moved,) = aside(tmp_path / "outbox", name)
    assert (moved / "inside").is_dir()


@pytest.mark.parametrize("name", ["spool.db", "state.db"])
@pytest.mark.parametrize("content", [b"", b"a text, not a database\n" * 400], ids=["empty", "text"])
async def test_an_empty_file_or_a_text_does_not_stop_the_start(
    open_outbox, tmp_path, name, content
):
    folder = tmp_path / "outbox"
    folder.mkdir()
    (folder / name).write_bytes(content)
    outbox = await open_outbox()
    assert await outbox.submit(Commit(rows=(raw(),))) == 1
    assert bool(aside(folder, name)) == bool(content)


UNREADABLE = """
import asyncio, os, sys, tempfile
from pathlib import Path
from edge_agent.clock import SystemClock
from edge_agent.outbox.store import Outbox
from edge_agent.settings import OutboxSettings
from edge_agent.types import Commit

async def use(folder):
    outbox = await Outbox.open(folder, settings=OutboxSettings(), clock=SystemClock())
    await outbox.recover()
    print(await outbox.submit(Commit()), sorted(p.name[:16] for p in folder.iterdir()))
    await outbox.close()

with tempfile.TemporaryDirectory() as warm:  # what is imported late may be out of reach afterwards
    (Path(warm) / "outbox" / "spool.db").mkdir(parents=True)
    asyncio.run(use(Path(warm) / "outbox"))
os.setuid(int(sys.argv[2]))
print("now")
asyncio.run(use(Path(sys.argv[1])))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
@pytest.mark.parametrize("owner", ["ours", "of another user"])
def test_a_file_that_may_not_be_read_is_made_readable_or_set_aside(tmp_path, owner):
    folder = tmp_path / "outbox"
    folder.mkdir()
    for parent in (folder, *folder.parents):
        if parent.is_relative_to("/tmp") and parent != Path("/tmp"):
            parent.chmod(0o755)
    nobody = pwd.getpwnam("nobody").pw_uid
    os.chown(folder, nobody, -1)
    (folder / "spool.db").write_bytes(b"")
    (folder / "spool.db").chmod(0)
    if owner == "ours":
        os.chown(folder / "spool.db", nobody, -1)
    done = subprocess.run(
        [sys.executable, "-c", UNREADABLE, folder, str(nobody)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    _, _, told = done.stdout.partition("now\n")
    assert ("spool.db.corrupt" in told) == (owner != "ours")


# --- a spool that is gone ------------------------------------------------------------------------


async def test_a_spool_deleted_while_the_agent_was_stopped_is_declared_exactly(
    open_outbox, tmp_path
):
    outbox = await open_outbox()
    await outbox.submit(whole_round(*[raw(3)] * 10, NewRow(RowClass.ALARM, b"!")))
    epoch = outbox.state().epoch
    await outbox.apply(Lane.TEL, Watermark(epoch, 4))
    await until(lambda: outbox.state().lanes[Lane.TEL].rows == 6)
    await outbox.close()
    (tmp_path / "outbox" / "spool.db").unlink()
    for _ in range(2):  # once, however often it starts
        outbox = await open_outbox()
        assert outbox.state().epoch != epoch
        assert await gaps_of(outbox) == [Gap(Lane.TEL, 5, 10, 1, 18, "lost", epoch=epoch)]
        assert await gaps_of(outbox, Lane.EVT) == [Gap(Lane.EVT, 1, 1, 1, 0, "lost", epoch=epoch)]
        await outbox.close()


async def test_a_spool_deleted_after_a_kill_is_declared_as_far_as_is_known(open_outbox, tmp_path):
    outbox = await open_outbox()
    await outbox.submit(Commit(rows=(raw(3),) * 10))
    epoch = outbox.state().epoch
    await outbox._owner.do(outbox._files.note)
    await outbox.submit(Commit(rows=(raw(3),) * 5))  # less than a second before the end
    await outbox._owner.do(outbox._files.close)
    outbox._files.finish = lambda: None  # a kill
    for path in (tmp_path / "outbox").glob("spool.db*"):
        path.unlink()
    outbox = await open_outbox()
    (gap,) = await gaps_of(outbox)
    assert gap in (
        Gap(Lane.TEL, 1, 10, 1, 30, "lost", epoch=epoch, exact=False),
        Gap(Lane.TEL, 1, 15, 1, 45, "lost", epoch=epoch, exact=False),
    )


async def test_a_spool_that_went_while_the_agent_ran_is_declared(open_outbox, tmp_path):
    outbox = await open_outbox()
    await outbox.submit(Commit(rows=(raw(3),) * 10))
    epoch = outbox.state().epoch
    await until(lambda: not outbox._owner._note_due)
    for path in (tmp_path / "outbox").glob("spool.db*"):
        path.unlink()
    await outbox._owner.do(outbox._files.reopen)
    assert outbox.state().epoch != epoch
    assert await gaps_of(outbox) == [Gap(Lane.TEL, 1, 10, 1, 30, "lost", epoch=epoch)]


async def test_an_old_copy_put_back_is_declared_exactly(open_outbox, tmp_path):
    outbox = await open_outbox()
    await outbox.submit(Commit(rows=(raw(3),) * 5))
    await outbox.close()
    path = tmp_path / "outbox" / "spool.db"
    copy = path.read_bytes()
    outbox = await open_outbox()
    await outbox.submit(Commit(rows=(raw(7),) * 5))
    await outbox.close()
    path.write_bytes(copy)
    outbox = await open_outbox()
    assert await outbox.submit(Commit(rows=(raw(),))) == 11
    assert await gaps_of(outbox) == [Gap(Lane.TEL, 6, 10, 1, 35, "lost")]
