"""`python -m cloud_hub` is the command line."""

from cloud_hub.cli import main

if __name__ == "__main__":
    main()
