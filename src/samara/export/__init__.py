"""Write programs as C, C++ and JavaScript."""
