"""Operations as GPU programs, in Triton: each file is the fast version of the operation of the same name."""
