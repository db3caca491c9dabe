from edge_agent.routing.budget import TokenBucket


def test_the_bucket_starts_full_and_empties():
    bucket = TokenBucket(2.0)
    assert bucket.available(100.0) == 2.0
    bucket.take()
    bucket.take()
    assert bucket.available(100.0) == 0.0
    assert bucket.available(100.25) == 0.5
    assert bucket.available(999.0) == 2.0


def test_a_rate_below_one_a_second_still_gives_whole_tokens():
    bucket = TokenBucket(0.1)
    assert bucket.available(0.0) == 1.0
    bucket.take()
    assert bucket.available(5.0) < 1.0
    assert bucket.available(10.0) == 1.0


def test_no_rate_gives_nothing_ever():
    bucket = TokenBucket(0.0)
    assert bucket.available(0.0) == 0.0
    assert bucket.available(1e9) == 0.0
