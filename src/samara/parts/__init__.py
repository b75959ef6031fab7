"""An aircraft from its parts list: every number with how it was made and how far it may be off."""
