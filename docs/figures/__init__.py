"""Pictures and generated pages of the documentation; `make gallery` draws them."""
