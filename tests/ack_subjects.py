"""Both forms of JetStream's acknowledgement subjects, for tests in which one travels.

Servers of the next kind put a domain and an account hash into `$JS.ACK…`; clients that count its tokens break.
"""

import pytest

V2 = "feature_flags { js_ack_fc_v2: true }"

both_ack_subjects = pytest.mark.parametrize(
    "hub_nats", ["", V2], indirect=True, ids=["ack-v1", "ack-v2"]
)
"""Runs the test twice, with the fixture `hub_nats` in either form."""
