# A multiplication and a following addition must each round, so the compiler must not fuse them (by default it does on
# AVX2, AVX-512 and Arm). GCC before 12.3 wrongly warns about uninitialized values in its AVX-512 headers (bug 105593).
KERNEL_FLAGS := -ffp-contract=off $(if $(IS_CLANG),,-Wno-uninitialized -Wno-maybe-uninitialized)
$(BUILD)/obj/cpu_reduce/%: private CXXFLAGS += $(KERNEL_FLAGS)
# Without it GCC copies two arguments as one vector, which waits until both have left the store buffer and slows down
# small calls.
$(BUILD)/obj/cpu_reduce/reduce.o: private CXXFLAGS += -fno-tree-slp-vectorize
# A Highway header includes the sources again. -MMD then treats the headers that they include as system headers and
# omits them, so the dependencies are listed here.
$(call objects,$(call sources,cpu_reduce)): $(wildcard cpu_reduce/*.h)
