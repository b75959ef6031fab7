"""The phenomena, one file each, and `multirotor`, which composes them. Pure functions of scalars; no backend, no clock."""
