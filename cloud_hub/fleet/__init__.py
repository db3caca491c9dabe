"""What devices report, and what the hub tells them: watermarks, load, revisions, and that they should ask."""
