import os
from contextlib import suppress

from edge_agent.observe.logs import Unbreakable


def test_a_log_whose_reader_has_gone_is_dropped_and_nothing_fails():
    reader, writer = os.pipe()
    stream = os.fdopen(writer, "w", buffering=1)
    log = Unbreakable(stream)
    assert log.write("kept\n") > 0
    os.close(reader)
    for _ in range(3):
        log.write("nobody reads this\n")
        log.flush()
    with suppress(BrokenPipeError):
        stream.close()
