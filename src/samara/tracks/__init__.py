"""The tracks of `samara race` that come with Samara, as TOML files."""
