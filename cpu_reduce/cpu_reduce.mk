# The compiler must not fuse a multiplication with the addition after it, because each operation must round. By
# default, compilers fuse them on AVX2, AVX-512 and Arm. GCC before 12.3 wrongly warns about uninitialized values in
# its AVX-512 headers (GCC bug 105593).
KERNEL_FLAGS := -ffp-contract=off $(if $(IS_CLANG),,-Wno-uninitialized -Wno-maybe-uninitialized)
$(BUILD)/obj/cpu_reduce/%: private CXXFLAGS += $(KERNEL_FLAGS)
# With SLP vectorization, GCC loads two arguments of a call as one vector. The load waits until both arguments have
# left the store buffer of the CPU, which slows down small calls.
$(BUILD)/obj/cpu_reduce/reduce.o: private CXXFLAGS += -fno-tree-slp-vectorize
# The makefile lists the header dependencies here, because -MMD omits them. A header of Highway includes the sources
# again, and the compiler then treats the headers that the sources include as system headers.
$(call objects,$(call sources,cpu_reduce)): $(wildcard cpu_reduce/*.h)
