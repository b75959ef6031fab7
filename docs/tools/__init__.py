"""Tools of the documentation: equations of the physics printed as LaTeX."""
