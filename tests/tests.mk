# Test programs and the stand-ins that they load. `make tests` builds all but the fuzzers, which are of FLAVOUR=asan.
TEST_LIBS := -lgtest -lgmock -lgtest_main

# build/tests/unit and build/tests/inproc contain the product except its programs.
UNDER_TEST := $(call objects,$(PLUGIN_PARTS) $(API_SRCS)) $(SERVER) $(CORE)
TRACE_SRCS := $(filter-out %/main.cc,$(call sources,tools/bps_trace))
UNIT       := $(BUILD)/tests/unit
INPROC     := $(BUILD)/tests/inproc
$(UNIT): $(call objects,$(call sources,tests/unit tests/support)) $(UNDER_TEST)
$(UNIT): $(call objects,$(filter-out %/main.cc,$(PERF_SRCS)) tools/bps_topo/mixture.cc $(call sources,tools/bps_topo/fabric) \
  tools/bps_doctor/survey.cc $(call sources,tools/bps_doctor/judge tools/bps_doctor/report) \
  perf/delay_line/delay_queue.cc $(TRACE_SRCS))
# The parts of the interposer that have unit tests.
$(UNIT): $(call objects,src/interpose/deferred_calls.cc src/interpose/negotiation/capabilities.cc)
$(INPROC): $(call objects,$(call sources,tests/inproc tests/support)) $(UNDER_TEST)
# The tests that need a real GPU, see tests/gpu/run.sh. They also run on the CUDA stand-in.
GPU_TEST := $(BUILD)/tests/gpu
$(GPU_TEST): $(call objects,$(call sources,tests/gpu tests/support)) $(SERVER) $(CORE)
$(UNIT) $(INPROC) $(GPU_TEST): private LINK_WITH := $(TEST_LIBS) $(CORE_LIBS)

# The CUDA header of NVIDIA, if it is installed, is compared with the declarations in src/cuda/cuda_api.h.
CUDA_HOME ?= /usr/local/cuda
$(BUILD)/obj/tests/unit/cuda/cuda_api_test.o: private CPPFLAGS += -isystem $(CUDA_HOME)/include

# A program with several ranks on GPUs, for tests/gpu/run.sh.
GPU_RANKS := $(BUILD)/tests/gpu_ranks
$(GPU_RANKS): $(call objects,$(call sources,tests/gpu_ranks)) $(CORE) $(LIBBPS)

# Hubs that break the control protocol, for hostile_hubs.sh.
HOSTILE_HUB := $(BUILD)/tests/hostile_hub
$(HOSTILE_HUB): $(call objects,$(call sources,tests/hostile_hub)) $(CORE)

# A rank that goes on without lost ranks, for shrink.sh.
SHRINK_RANKS := $(BUILD)/tests/shrink_ranks
$(SHRINK_RANKS): $(call objects,$(call sources,tests/shrink_ranks)) $(LIBBPS)

# A rank that all-reduces without end, for perf/disturbed_cluster.
STEADY_RANKS := $(BUILD)/tests/steady_ranks
$(STEADY_RANKS): $(call objects,$(call sources,tests/steady_ranks)) $(LIBBPS)

# A rank that trains asynchronously, for parameters.sh.
PARAM_RANKS := $(BUILD)/tests/param_ranks
$(PARAM_RANKS): $(call objects,$(call sources,tests/param_ranks)) $(LIBBPS)

# A net plugin with selectable defects, each of which net-plugin-check must find.
BROKEN_PLUGIN := $(BUILD)/tests/libnccl-net-broken.so
$(BROKEN_PLUGIN): $(call objects,$(call sources,tests/broken_plugin))
$(BROKEN_PLUGIN): private LINK_WITH := -ldl

# A net plugin that wraps another one and injects faults.
FAULT_PLUGIN := $(BUILD)/tests/libnccl-net-fault.so
$(FAULT_PLUGIN): $(call objects,$(call sources,tests/fault_plugin)) $(CORE)
$(FAULT_PLUGIN): private LIBRARY_OPTIONS := $(HIDDEN) $(RESIDENT)

# A stand-in for NVIDIA's management library, which the tests of topo/detect load.
FAKE_NVML := $(BUILD)/tests/libfake-nvml.so
$(FAKE_NVML): $(call objects,$(call sources,tests/fake_nvml))
$(UNIT): | $(FAKE_NVML)

# A stand-in for the CUDA driver, see tests/fake_cuda/fake_cuda.h.
FAKE_CUDA := $(BUILD)/tests/fake_cuda/libcuda.so.1
$(FAKE_CUDA): $(call objects,$(call sources,tests/fake_cuda))
$(FAKE_CUDA): private LIBRARY_OPTIONS := $(RESIDENT)
$(INPROC): | $(FAKE_CUDA)

# A stand-in for NCCL, and a program with several ranks that uses it: the tests of the interposer.
FAKE_NCCL  := $(BUILD)/tests/nccl/libnccl.so.2
NCCL_RANKS := $(BUILD)/tests/nccl/ranks
$(FAKE_NCCL): $(call objects,$(call sources,tests/fake_nccl))
$(NCCL_RANKS): $(call objects,$(call sources,tests/interpose) src/base/format.cc) $(FAKE_NCCL)
$(FAKE_NCCL) $(NCCL_RANKS): private LINK_WITH := -ldl

# A rank of an NCCL communicator on a machine without a GPU, and a stand-in for NVIDIA's management library for NCCL.
NO_GPU_RANK := $(BUILD)/tests/no_gpu/nccl_rank
NO_GPU_NVML := $(BUILD)/tests/no_gpu/libnvidia-ml.so.1
$(NO_GPU_RANK): $(call objects,$(filter-out %/nvml_stub.cc,$(call sources,tests/no_gpu))) $(CORE)
$(NO_GPU_NVML): $(call objects,tests/no_gpu/nvml_stub.cc)

TEST_LIBRARIES := $(BROKEN_PLUGIN) $(FAULT_PLUGIN) $(FAKE_NVML) $(FAKE_CUDA) $(FAKE_NCCL) $(NO_GPU_NVML)
TEST_PROGRAMS  := $(UNIT) $(INPROC) $(GPU_TEST) $(GPU_RANKS) $(HOSTILE_HUB) $(SHRINK_RANKS) $(STEADY_RANKS) $(PARAM_RANKS) $(NCCL_RANKS) $(NO_GPU_RANK)
$(FAKE_NVML) $(FAKE_CUDA) $(NO_GPU_NVML): private LINK_WITH :=
$(TEST_LIBRARIES):
	$(link-library)
$(TEST_PROGRAMS):
	$(link-program)
tests: $(TEST_LIBRARIES) $(TEST_PROGRAMS) $(LIBS) $(BINS) $(if $(filter release,$(FLAVOUR)),gpu-kit)
# The libraries that the in-process tests load.
libraries: $(PLUGIN) $(FAULT_PLUGIN)
compiler:
	@echo $(CXX)

# One libFuzzer program for each fuzz_NAME.cc in tests/fuzz and tests/fuzz/files (parsers) and in tests/fuzz/states (state
# machines).
# They contain the modules that have parsers, but not the kernels, which take long to instrument and parse nothing.
FUZZ_TESTS := $(call sources,tests/fuzz)
FUZZERS    := $(patsubst %.cc,$(BUILD)/fuzz/%,$(notdir $(FUZZ_TESTS)))
FUZZ_SRCS  := $(filter-out src/comm/% src/service/% cpu_reduce/%,$(CORE_SRCS)) $(PLUGIN_PARTS) \
  $(call sources,src/comm/local) src/comm/call/collective.cc src/service/round.cc src/server/session.cc src/server/status/status_requests.cc \
  src/interpose/negotiation/capabilities.cc src/nccl/local_gpu_groups.cc src/nccl/gpu_locality.cc \
  src/comm/startup/probe_times.cc perf/workload/model/safetensors.cc $(TRACE_SRCS)
LIBFUZZED  := $(BUILD)/lib/libfuzzed.a
# These are the parts of -fsanitize=fuzzer-no-link that work with the precompiled headers of the other objects.
COVERAGE   := inline-8bit-counters$(comma)pc-table$(comma)indirect-calls$(comma)trace-cmp
ifeq ($(FLAVOUR)$(IS_CLANG),asanclang)
$(call objects,$(FUZZ_SRCS) $(FUZZ_TESTS)): private CXXFLAGS += -fsanitize-coverage=$(COVERAGE)
endif
$(LIBFUZZED): $(call objects,$(FUZZ_SRCS))
	$(archive)
fuzzers: $(FUZZERS)
$(FUZZERS): $(BUILD)/fuzz/%: $$(call objects,$$(wildcard tests/fuzz/$$*.cc tests/fuzz/files/$$*.cc tests/fuzz/states/$$*.cc)) $(LIBFUZZED)
	$(link-program)
$(FUZZERS): private LINK_WITH := -fsanitize=fuzzer $(CORE_LIBS)

# All sources are compiled and not linked, for FLAVOUR=tsa and to try another compiler.
compiled: $(call objects,$(filter-out tests/abi/%,$(ALL_SRCS)))
.PHONY: libraries compiler fuzzers compiled

# -Wconversion of clang, unlike that of g++, covers sign conversions. Tests pass literals as size_t, so it is off here.
QUICK_TESTS := $(QUICK_$(FLAVOUR)) $(if $(filter release,$(FLAVOUR)),-g0) $(if $(IS_CLANG),-Wno-sign-conversion)
$(BUILD)/obj/tests/%: private CXXFLAGS += $(QUICK_TESTS)
# The CUDA driver is a C library without C++ types that a call could be checked against. So is its stand-in.
ifeq ($(FLAVOUR)$(IS_CLANG),asanclang)
$(BUILD)/obj/tests/fake_cuda/%: private CXXFLAGS += -fno-sanitize=function
endif

$(BUILD)/obj/tests/support/precompiled.h.gch: tests/support/precompiled.h
ifeq ($(PRECOMPILE),yes)
GTEST_OBJS := $(call objects,$(call sources,tests/unit tests/inproc tests/support tests/gpu))
$(GTEST_OBJS): private PRECOMPILED := $(BUILD)/obj/tests/support/precompiled.h
$(GTEST_OBJS): $(BUILD)/obj/tests/support/precompiled.h.gch
endif
