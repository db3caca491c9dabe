"""Links that are cut, lose, crawl, hang or flap, streams that are full, and descriptors that run out."""
