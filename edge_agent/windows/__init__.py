"""Ring buffers of readings, the windows that fall due, and the holes in them."""
