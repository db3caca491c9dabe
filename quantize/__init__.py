"""The workshop: from public data to small INT8 models in packages, with an honest report beside each."""
