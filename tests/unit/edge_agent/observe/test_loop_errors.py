"""What only the event loop sees is one line, not a traceback a hundred times a second."""

import asyncio
import errno
import json

from edge_agent.observe.logs import configure_logging
from edge_agent.observe.loop_errors import tell_loop_errors


async def test_a_listener_without_descriptors_is_one_line(capsys):
    configure_logging("info", "json")
    loop = asyncio.get_running_loop()
    tell_loop_errors(loop)
    for _ in range(100):
        loop.call_exception_handler(
            {
                "message": "socket.accept() out of system resource",
                "exception": OSError(errno.EMFILE, "Too many open files"),
            }
        )
    (line,) = capsys.readouterr().err.splitlines()
    told = json.loads(line)
    assert (told["event"], told["fault"]) == (
        "loop_error",
        "socket.accept() out of system resource",
    )
    assert "Too many open files" in told["error"]
    assert "Traceback" not in line
