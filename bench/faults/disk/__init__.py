"""Disks that lose power, fill up, fail, slow down, flip bits or go away."""
