"""The store: SQL lives here and only here. Functions take a Connection and never commit."""
