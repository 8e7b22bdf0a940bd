"""Operations as compiled CPU loops, in Numba: each file is the fast version of the operation of the same name."""
