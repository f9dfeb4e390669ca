"""Tools of the project that do not ship."""
