"""Algorithm selection: scenarios of ASlib (Bischl et al. 2016) as teacher rows, one action for each algorithm."""
