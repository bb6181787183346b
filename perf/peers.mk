# The programs that perf/compare_peers starts: one for bps, and one for each peer whose headers are
# found. The other peers are reported as skipped. No other part of the build needs these programs.
# They compile the peers' templates, so all of them are compiled with -O3.
PEER_BASE := $(BUILD)/obj/perf/peers/timing.o
$(BUILD)/obj/perf/peers/%: private CXXFLAGS += -O3
MPI_FLAGS = $(shell mpicc --showme:compile 2>/dev/null)
HAS_GLOO  = $(call has-header,gloo/allreduce.h)

.PHONY: peers
peers: $(BUILD)/peers/bps ## drivers for perf/compare_peers, for each peer that is installed
	@$(if $(MPI_FLAGS),$(MAKE) --no-print-directory $(BUILD)/peers/open_mpi,\
	  echo "peers: skipped: Open MPI: no mpicc of Open MPI (libopenmpi-dev)")
	@$(if $(HAS_GLOO),$(MAKE) --no-print-directory $(BUILD)/peers/gloo,\
	  echo "peers: skipped: Gloo: no gloo/allreduce.h (libgloo-dev)")

$(BUILD)/peers/bps: $(call objects,perf/peers/bps.cc perf/app/environment.cc) $(PEER_BASE) $(CORE) $(LIBBPS)
	$(link-program)

$(BUILD)/peers/gloo: $(call objects,perf/peers/gloo.cc) $(PEER_BASE)
	$(link-program)
$(BUILD)/peers/gloo: private LINK_WITH := -lgloo

$(BUILD)/peers/open_mpi: perf/peers/open_mpi.cc $(PEER_BASE)
	@mkdir -p $(@D)
	$(CXX) $(filter-out -MMD -MP,$(CPPFLAGS)) -DOMPI_SKIP_MPICXX $(patsubst -I%,-isystem %,$(MPI_FLAGS)) \
	  $(CXXFLAGS) -O3 -o $@ $^ $(LDFLAGS) $(shell mpicc --showme:link)
