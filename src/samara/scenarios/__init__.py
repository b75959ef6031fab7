"""The scenarios that come with Samara, as TOML files."""
