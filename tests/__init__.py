"""The checks of the project; see CONTRIBUTING.md."""
