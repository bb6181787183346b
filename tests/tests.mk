# Test programs: tests/unit/*.cc -> build/tests/unit, tests/inproc -> build/tests/inproc, tests/multiproc -> ...
TEST_SUITES := $(sort $(foreach s,unit inproc multiproc,$(if $(wildcard tests/$(s)/*.cc tests/$(s)/*/*.cc),$(s))))
TEST_LIBS   := -lgtest -lgmock -lgtest_main
UNIT_DIRS   := $(filter-out $(if $(filter without,$(VERBS)),%/verbs_ib/),$(wildcard tests/unit/*/))

define suite
$(BUILD)/tests/$(1): $(call objects,$(call sources,tests/$(1) $(if $(filter unit,$(1)),$(UNIT_DIRS),$(wildcard tests/$(1)/*/)) tests/support)) $(call objects,$(PLUGIN_PARTS) $(API_SRCS) $(if $(filter unit,$(1)),$(filter-out %/main.cc,$(PERF_SRCS)))) $(SERVER) $(CORE)
	@mkdir -p $$(@D)
	$$(CXX) $$(LDFLAGS) -o $$@ $$^ $$(TEST_LIBS) $$(CORE_LIBS)
endef
$(foreach s,$(TEST_SUITES),$(eval $(call suite,$(s))))

# A net plugin with defects to choose from, which net-plugin-check must find.
BROKEN := $(BUILD)/tests/libnccl-net-broken.so
$(BROKEN): $(call objects,$(call sources,tests/broken_plugin))
	@mkdir -p $(@D)
	$(CXX) -shared $(LDFLAGS) -o $@ $^ -ldl

# A net plugin that wraps another and injects faults, for the tests of what stands above.
FAULT_PLUGIN := $(BUILD)/tests/libnccl-net-fault.so
$(FAULT_PLUGIN): $(call objects,$(call sources,tests/fault_plugin)) $(CORE)
	@mkdir -p $(@D)
	$(CXX) -shared $(LDFLAGS) -Wl,-soname,$(@F) $(COMPLETE) -Wl,-z,nodelete -Wl,--exclude-libs,ALL -o $@ $^ $(CORE_LIBS)

# A rank of an NCCL communicator on a machine without GPU, and the double of the library that NCCL asks about GPUs.
NO_GPU := $(addprefix $(BUILD)/tests/no_gpu/,nccl_rank libnvidia-ml.so.1)
$(BUILD)/tests/no_gpu/nccl_rank: $(call objects,$(filter-out %/nvml_double.cc,$(call sources,tests/no_gpu))) $(CORE)
	@mkdir -p $(@D)
	$(CXX) $(LDFLAGS) -o $@ $^ $(CORE_LIBS)
$(BUILD)/tests/no_gpu/libnvidia-ml.so.1: $(call objects,tests/no_gpu/nvml_stub.cc)
	@mkdir -p $(@D)
	$(CXX) -shared $(LDFLAGS) -Wl,-soname,$(@F) -o $@ $^

# What the test of detection loads in place of the driver's library.
FAKE_NVML := $(BUILD)/tests/libfake-nvml.so
$(FAKE_NVML): $(call objects,$(call sources,tests/fake_nvml))
	@mkdir -p $(@D)
	$(CXX) -shared $(LDFLAGS) -o $@ $^
$(BUILD)/tests/unit: | $(FAKE_NVML)
# The parts of the interposer that have unit tests.
$(BUILD)/tests/unit: $(call objects,$(addprefix src/interpose/,deferred_calls.cc negotiation/capabilities.cc))
$(BUILD)/tests/unit: $(call objects,tools/bps_server/http_request.cc)

# NVIDIA's header, if it is installed, is what bps's own declarations are compared with.
CUDA_HOME ?= /usr/local/cuda
EXTRA_tests_unit_device_cuda_api_test := -isystem $(CUDA_HOME)/include
# A double of the CUDA driver, see tests/fake_cuda/fake_cuda.h.
FAKE_CUDA := $(BUILD)/tests/fake_cuda/libcuda.so.1
$(FAKE_CUDA): $(call objects,$(call sources,tests/fake_cuda))
	@mkdir -p $(@D)
	$(CXX) -shared $(LDFLAGS) -Wl,-soname,$(@F) -Wl,-z,nodelete -o $@ $^

$(BUILD)/tests/inproc: | $(FAKE_CUDA)

# What needs a real GPU, see tests/gpu/run.sh; it also runs on the double.
GPU_TEST := $(BUILD)/tests/gpu
$(GPU_TEST): $(call objects,$(call sources,tests/gpu tests/support)) $(SERVER) $(CORE)
	@mkdir -p $(@D)
	$(CXX) $(LDFLAGS) -o $@ $^ $(TEST_LIBS) $(CORE_LIBS)

# Hubs that misbehave, for hostile_hubs.sh.
HOSTILE_HUB := $(BUILD)/tests/hostile_hub
$(HOSTILE_HUB): $(call objects,$(call sources,tests/hostile_hub)) $(CORE)
	@mkdir -p $(@D)
	$(CXX) $(LDFLAGS) -o $@ $^ $(CORE_LIBS)

GPU_RANKS := $(BUILD)/tests/gpu_ranks
$(GPU_RANKS): $(call objects,$(call sources,tests/gpu_ranks)) $(CORE) $(BUILD)/lib/libbps.so
	@mkdir -p $(@D)
	$(CXX) $(LDFLAGS) -o $@ $(filter %.o,$^) -L$(BUILD)/lib -lbps $(CORE) $(CORE_LIBS) -Wl,-rpath,'$$ORIGIN/../lib'

# A double of NCCL, and a program of several ranks for it: the tests of the interposer.
FAKE_NCCL := $(BUILD)/tests/nccl/libnccl.so.2
$(FAKE_NCCL): $(call objects,$(call sources,tests/fake_nccl))
	@mkdir -p $(@D)
	$(CXX) -shared $(LDFLAGS) -Wl,-soname,$(@F) -o $@ $^ -ldl
$(BUILD)/tests/unit: | $(FAKE_NCCL)
INTERPOSED := $(BUILD)/tests/nccl/ranks
$(INTERPOSED): $(call objects,$(call sources,tests/interpose)) $(FAKE_NCCL)
	@mkdir -p $(@D)
	$(CXX) $(LDFLAGS) -o $@ $^ $(BUILD)/obj/src/base/format.o
tests: $(INTERPOSED)

tests: $(GPU_TEST) $(GPU_RANKS) $(BROKEN) $(NO_GPU) $(FAKE_CUDA) $(addprefix $(BUILD)/tests/,$(TEST_SUITES)) $(FAULT_PLUGIN) $(HOSTILE_HUB) $(LIBS) $(BINS)
# What the in-process tests load.
libraries: $(BUILD)/lib/libnccl-net-bps.so $(FAULT_PLUGIN)
compiler:
	@echo $(CXX)

# One libFuzzer program per fuzz_NAME.cc, of parsers and (in states/) of state machines, in FLAVOUR=asan. Linked with the modules that have parsers, which
# leaves out the kernels: they take long to instrument and parse nothing.
FUZZERS   := $(patsubst %.cc,$(BUILD)/fuzz/%,$(notdir $(wildcard tests/fuzz/*.cc tests/fuzz/states/*.cc)))
FUZZ_SRCS := $(filter-out src/comm/% src/service/% cpu_reduce/%,$(CORE_SRCS)) $(PLUGIN_PARTS) \
  perf/workload/safetensors.cc src/server/session.cc tools/bps_server/http_request.cc src/service/round.cc src/comm/call/collective.cc \
  src/interpose/negotiation/capabilities.cc src/nccl/local_gpu_groups.cc src/nccl/gpu_locality.cc \
  $(addprefix src/comm/local/,local_reducer.cc local_ring.cc machine_plan.cc machine_traffic.cc link_byte_counters.cc step_cache.cc local_bootstrap.cc binding.cc)
$(call objects,$(FUZZ_SRCS) $(call sources,tests/fuzz tests/fuzz/states)): private COVERAGE := $(COVERAGE_$(FLAVOUR))
$(BUILD)/lib/libfuzzed.a: $(call objects,$(FUZZ_SRCS))
	@mkdir -p $(@D)
	@rm -f $@
	ar rcs $@ $^
fuzzers: $(FUZZERS)
.SECONDEXPANSION:
$(FUZZERS): $(BUILD)/fuzz/%: $$(addprefix $(BUILD)/obj/,$$(addsuffix .o,$$(basename $$(wildcard tests/fuzz/$$*.cc tests/fuzz/states/$$*.cc)))) $(BUILD)/lib/libfuzzed.a
	@mkdir -p $(@D)
	$(CXX) $(LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(CORE_LIBS)

# All sources compiled and not linked, for FLAVOUR=tsa and to try another compiler.
compiled: $(call objects,$(INTERPOSE_SRCS) $(call sources,tests/fake_nccl tests/interpose))
compiled: $(call objects,$(call sources,$(wildcard tools/*/ tools/*/*/ perf/*/ tests/multiproc/ tests/broken_plugin/ tests/no_gpu/)))
compiled: $(call objects,$(sort $(CORE_SRCS) $(API_SRCS) $(SERVER_SRCS) $(PLUGIN_SRCS) $(PERF_SRCS)) \
  $(call sources,$(UNIT_DIRS) $(wildcard tests/inproc/ tests/support/ tests/fault_plugin/ tests/fake_nvml/ tests/fake_cuda/ tests/gpu/ tests/gpu_ranks/ tests/fuzz/ tests/fuzz/states/)))
.PHONY: libraries compiler fuzzers compiled

# Tests and command lines are compiled quickly: their own speed matters little. g++ leaves sign conversions out of -Wconversion; clang is told to, where literals meet size_t.
QUICK_release := -O0 -g1
QUICK_asan    := -O0
QUICK_tsan    := -O0
QUICK_TESTS := $(QUICK_$(FLAVOUR)) $(if $(filter release,$(FLAVOUR)),-g0) $(if $(IS_CLANG),-Wno-sign-conversion)
$(BUILD)/obj/tests/%.o: private CXXFLAGS += $(QUICK_TESTS)
$(BUILD)/obj/tests/%.gch: private CXXFLAGS += $(QUICK_TESTS)
$(BUILD)/obj/tools/%.o: private CXXFLAGS += $(QUICK_$(FLAVOUR))
$(BUILD)/obj/tools/%.gch: private CXXFLAGS += $(QUICK_$(FLAVOUR))
$(eval $(call precompile,tests/support/precompiled,tests/support/precompiled.h,$(call objects,\
  $(call sources,$(UNIT_DIRS) $(wildcard tests/inproc/ tests/inproc/*/ tests/support/ tests/multiproc/ tests/gpu/)))))
# The driver is a C library: its functions carry no C++ types that a caller's could be compared with, nor do the double's.
$(BUILD)/obj/tests/fake_cuda/%.o: private CXXFLAGS += $(if $(IS_CLANG),$(if $(filter asan,$(FLAVOUR)),-fno-sanitize=function))
