"""One module for each page of docs/reference/; each has `page() -> str`, which depends on the code alone."""
