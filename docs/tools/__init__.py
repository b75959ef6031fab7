"""Tools of the documentation: LaTeX of the physics equations, and checks of the rigid body."""
