"""Pictures of flights, plans and rotors."""
