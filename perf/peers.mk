# The drivers of perf/compare_peers: one for bps, and one for each peer whose headers are found; the others are reported
# as skipped. Nothing else needs them. Templates of a peer are compiled here, so all drivers are compiled with -O3.
PEER_BASE := $(BUILD)/obj/perf/peers/timing.o
EXTRA_perf_peers_timing := -O3
EXTRA_perf_peers_bps    := -O3
EXTRA_perf_peers_gloo   := -O3
MPI_FLAGS = $(shell mpicc --showme:compile 2>/dev/null)
HAS_GLOO  = $(shell echo '\#include <gloo/allreduce.h>' | $(CXX) -E -x c++ - >/dev/null 2>&1 && echo yes)

.PHONY: peers
peers: $(BUILD)/peers/bps ## drivers for perf/compare_peers, of those peers that are installed
	@$(if $(MPI_FLAGS),$(MAKE) --no-print-directory $(BUILD)/peers/open_mpi,echo "peers: skipped: Open MPI: no mpicc of Open MPI (libopenmpi-dev)")
	@$(if $(HAS_GLOO),$(MAKE) --no-print-directory $(BUILD)/peers/gloo,echo "peers: skipped: Gloo: no gloo/allreduce.h (libgloo-dev)")

$(BUILD)/peers/bps: $(BUILD)/obj/perf/peers/bps.o $(PEER_BASE) $(BUILD)/obj/perf/app/environment.o $(CORE) $(BUILD)/lib/libbps.so
	@mkdir -p $(@D)
	$(CXX) $(LDFLAGS) -o $@ $(filter %.o,$^) -L$(BUILD)/lib -lbps $(CORE) $(CORE_LIBS) -Wl,-rpath,'$$ORIGIN/../lib'

$(BUILD)/peers/gloo: $(BUILD)/obj/perf/peers/gloo.o $(PEER_BASE)
	@mkdir -p $(@D)
	$(CXX) $(LDFLAGS) -o $@ $^ -lgloo

$(BUILD)/peers/open_mpi: perf/peers/open_mpi.cc $(PEER_BASE)
	@mkdir -p $(@D)
	$(CXX) $(filter-out -MMD -MP,$(CPPFLAGS)) -DOMPI_SKIP_MPICXX $(patsubst -I%,-isystem %,$(MPI_FLAGS)) $(CXXFLAGS) -O3 -o $@ $^ $(LDFLAGS) \
	  $(shell mpicc --showme:link)
