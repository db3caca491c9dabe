"""Who can answer on the device: INT8 models, and a baseline that needs none."""
