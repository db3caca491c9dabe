"""The shape of the code: sizes, names, doors and side effects. Import rules: `lint-imports`."""
