"""The pictures and generated pages of the documentation: `make gallery` draws them again."""
