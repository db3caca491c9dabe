"""One file for each technology that runs models."""
