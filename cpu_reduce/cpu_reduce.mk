# A multiplication and an addition must round each: the compiler may not fuse them (it would on AVX2, AVX-512 and Arm).
$(foreach f,$(patsubst %.cc,%,$(wildcard cpu_reduce/*.cc)),$(eval EXTRA_$(subst /,_,$(f)) := -ffp-contract=off))
