# A multiplication and an addition must round each: the compiler may not fuse them (it would on AVX2, AVX-512 and Arm).
# GCC before 12.3 takes its own AVX-512 headers for uninitialized (its bug 105593).
KERNEL_FLAGS := -ffp-contract=off $(if $(IS_CLANG),,-Wno-uninitialized -Wno-maybe-uninitialized)
$(foreach f,$(patsubst %.cc,%,$(wildcard cpu_reduce/*.cc)),$(eval EXTRA_$(subst /,_,$(f)) := $(KERNEL_FLAGS)))
# Two arguments copied as one vector wait for both to leave the store buffer, a third of the time of a small call.
EXTRA_cpu_reduce_reduce += -fno-tree-slp-vectorize
# A header of Highway includes the sources again: what those include is for -MMD a header of the system, and left out.
$(call objects,$(wildcard cpu_reduce/*.cc)): $(wildcard cpu_reduce/*.h)
