"""The hub's database: tables, one writer, and the queries; the only importer of SQLAlchemy."""
