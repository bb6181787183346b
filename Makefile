# bps: build, test and run. Start with `make run` or `make test`; `make help` lists the rest.
#
#   make FLAVOUR=asan|tsan|tsa TARGET    another build flavour, under build/FLAVOUR; fuzz is another name for asan
#   make CXX=clang++-14 TARGET           another compiler

FLAVOUR ?= release
ifeq ($(FLAVOUR),fuzz)
override FLAVOUR := asan
endif
BUILD   := $(if $(filter release,$(FLAVOUR)),build,build/$(FLAVOUR))
PREFIX  ?= /usr/local
CCACHE  := $(if $(CCACHE_DISABLE),,$(shell command -v ccache 2>/dev/null))
# A build in another directory is the same build: clones share what is compiled.
export CCACHE_NOHASHDIR := 1

# The flavours take clang where it is complete: it instruments in a third of g++'s time, analyses locks, and fuzzes.
ifeq ($(origin CXX),default)
# The first that is GCC 12 or newer; Ubuntu 22.04's g++ is 11.
CXX := $(or $(shell for c in g++ g++-14 g++-13 g++-12; do [ "$$($$c -dumpversion 2>/dev/null | cut -d. -f1)" -ge 12 ] \
  2>/dev/null && echo $$c && break; done),g++)
ifneq ($(filter asan tsan tsa,$(FLAVOUR)),)
CLANG := $(firstword $(shell command -v clang++-14 clang++ 2>/dev/null))
CXX := $(or $(shell echo 'int main() {}' | $(CLANG) -x c++ - -fsanitize=address -o /dev/null 2>/dev/null && echo $(CLANG)),g++)
endif
endif
ifeq ($(origin CC),default)
CC := gcc
endif
IS_CLANG := $(findstring clang,$(CXX))

# Warnings are errors with the two compilers that every change is built with; others know other warnings.
TESTED   := $(filter $(if $(IS_CLANG),14,12).%,$(shell $(CXX) -dumpfullversion -dumpversion))
WARN     := -Wall -Wextra -Wpedantic -Wconversion -Wshadow $(if $(IS_CLANG),-Wthread-safety) $(if $(TESTED),-Werror)
CPPFLAGS += -I. -Iinclude -MMD -MP
# -g1: backtraces with lines; full debug information takes a third longer to compile.
CXXFLAGS ?= -O2 -g1
CXXFLAGS += -std=c++20 -fPIC -fvisibility=hidden -fvisibility-inlines-hidden -pthread $(WARN)
LDFLAGS  += -pthread

comma        := ,
SANITIZED    := -DBPS_SANITIZED -O1 -g1 -fno-sanitize-recover=all -fno-omit-frame-pointer $(if $(IS_CLANG),,-Wno-maybe-uninitialized)
FLAVOUR_asan := $(SANITIZED) -fsanitize=address,undefined
# For what the fuzzers are linked with; -fsanitize=fuzzer-no-link by its parts, since that needs precompiled headers of
# its own.
COVERAGE_asan := $(if $(IS_CLANG),-fsanitize-coverage=inline-8bit-counters$(comma)pc-table$(comma)indirect-calls$(comma)trace-cmp)
FLAVOUR_tsan := $(SANITIZED) -fsanitize=thread
FLAVOUR_tsa  := -fsyntax-only
CXXFLAGS += $(FLAVOUR_$(FLAVOUR))
LDFLAGS  += $(filter -fsanitize=%,$(FLAVOUR_$(FLAVOUR)))

# A module is a directory; its sources are what lies in it.
sources  = $(sort $(foreach dir,$(patsubst %/,%,$(1)),$(wildcard $(dir)/*.cc)))
objects  = $(patsubst %.cc,$(BUILD)/obj/%.o,$(1))

CORE_SRCS   := $(call sources,src/base $(wildcard src/base/*/) src/wire src/plan src/net src/control src/control/link src/control/keys src/control/hub src/control/rendezvous src/service src/cuda $(wildcard src/cuda/*/) src/comm $(wildcard src/comm/*/) src/comm/local/machine cpu_reduce topo topo/xml topo/detect topo/plan)
API_SRCS    := $(call sources,src/api src/nccl)
INTERPOSE_SRCS := $(call sources,src/interpose src/interpose/nccl src/interpose/negotiation)
SERVER_SRCS := $(call sources,src/server)
BASE_SRCS   := $(call sources,src/base $(wildcard src/base/*/))
# RDMA verbs: with their headers (libibverbs-dev) or without; the library itself is looked for at run time.
VERBS ?= $(if $(shell echo '\#include <infiniband/verbs.h>' | $(CXX) -E -x c++ - >/dev/null 2>&1 && echo yes),ib,without)
PLUGIN_PARTS := $(call sources,net_plugin net_plugin/verbs/$(VERBS) $(wildcard net_plugin/verbs/$(VERBS)/*/) \
  $(filter-out %/nccl,$(patsubst %/,%,$(wildcard net_plugin/*/))))
PLUGIN_SRCS := $(PLUGIN_PARTS) $(call sources,net_plugin/nccl) $(BASE_SRCS)
PERF_SRCS   := $(call sources,perf/app perf/report perf/workload)

CORE   := $(BUILD)/lib/libbps_core.a
SERVER := $(BUILD)/lib/libbps_server.a
LIBS   := $(addprefix $(BUILD)/lib/,libbps.so libnccl-net-bps.so libbps-nccl.so nccl/libnccl.so.2)
TOOLS  := $(patsubst tools/%/main.cc,%,$(wildcard tools/*/main.cc))
BINS   := $(addprefix $(BUILD)/bin/,$(subst _,-,$(TOOLS)) $(if $(PERF_SRCS),bps-perf))

# Third-party code is linked statically or hidden: a preloaded object must not meet the application's copy of it.
SODIUM := -l:libsodium.a
# clang's OpenMP runtime is a package of its own; what clang builds here, to analyse and test, does without its threads.
OPENMP := $(if $(IS_CLANG),-Wno-source-uses-openmp,-fopenmp)
EXPAT := -l:libexpat.a
CORE_LIBS := $(SODIUM) $(EXPAT) $(filter -f%,$(OPENMP)) -ldl
CXXFLAGS += $(OPENMP)
# clang's sanitizer runtimes are in the program, so a sanitized library cannot know all its symbols.
COMPLETE := $(if $(IS_CLANG),,-Wl$(comma)--no-undefined)

.PHONY: all run test test-gpu gpu-kit check check-all bench fmt docs install deps clean help tests ci
.DEFAULT_GOAL := all
.SECONDARY:
.DELETE_ON_ERROR:

all: $(LIBS) $(BINS) ## build the libraries and programs

# Objects of another compiler or other options are made anew, and what they make up with or without verbs.
$(BUILD)/command: FORCE
	@mkdir -p $(@D)
	@echo '$(CXX) $(CPPFLAGS) $(CXXFLAGS) $(VERBS)' | cmp -s - $@ || echo '$(CXX) $(CPPFLAGS) $(CXXFLAGS) $(VERBS)' > $@
.PHONY: FORCE

$(BUILD)/obj/%.o: %.cc $(BUILD)/command
	@mkdir -p $(@D)
	$(CCACHE) $(CXX) $(PRECOMPILED) $(CPPFLAGS) $(CXXFLAGS) $(COVERAGE) $(EXTRA_$(subst /,_,$*)) -c $< -o $@
	$(if $(filter tsa,$(FLAVOUR)),@touch $@)

# Headers that nearly every source includes are compiled once for each set of options, which saves a third of a build
# from nothing. Not with ccache, whose entries would then be of one directory only, nor where clang analyses the sources:
# there each must stand on its own includes.
PRECOMPILE ?= $(if $(CCACHE)$(filter tsa,$(FLAVOUR)),,yes)
# precompile NAME,HEADER,OBJECTS
define precompile
$(BUILD)/obj/$(1).h.gch: $(2) $(BUILD)/command
	@mkdir -p $$(@D)
	$$(CXX) $$(CPPFLAGS) $$(CXXFLAGS) $(if $(IS_CLANG),-fpch-instantiate-templates) -x c++-header $$< -o $$@
ifeq ($(PRECOMPILE),yes)
$(3): private PRECOMPILED := -include $(BUILD)/obj/$(1).h
$(3): $(BUILD)/obj/$(1).h.gch
endif
endef

$(CORE): $(call objects,$(CORE_SRCS))
$(SERVER): $(call objects,$(SERVER_SRCS))
$(CORE) $(SERVER):
	@mkdir -p $(@D)
	@rm -f $@
	ar rcs $@ $^

$(BUILD)/lib/libbps.so: $(call objects,$(API_SRCS)) $(CORE) src/api/libbps.map
	@mkdir -p $(@D)
	$(CXX) -shared $(LDFLAGS) -Wl,--version-script=src/api/libbps.map -Wl,-soname,libbps.so $(COMPLETE) \
	  -Wl,--exclude-libs,ALL -o $@ $(call objects,$(API_SRCS)) $(CORE) $(CORE_LIBS)

$(BUILD)/lib/libnccl-net-bps.so: $(call objects,$(PLUGIN_SRCS)) net_plugin/plugin.map
	@mkdir -p $(@D)
	$(CXX) -shared $(LDFLAGS) -Wl,--version-script=net_plugin/plugin.map -Wl,-soname,libnccl-net-bps.so \
	  $(COMPLETE) -Wl,-z,nodelete -Wl,--exclude-libs,ALL -o $@ $(call objects,$(PLUGIN_SRCS)) $(SODIUM) -ldl

# What stands between a program and NCCL: for LD_PRELOAD, and under NCCL's name for those who open NCCL themselves. All
# of bps is inside, so the only file beside it is the net plugin.
INTERPOSE := $(call objects,$(filter-out %/forward.cc,$(INTERPOSE_SRCS)) $(API_SRCS))
$(BUILD)/lib/libbps-nccl.so: $(INTERPOSE) $(CORE) src/interpose/preload.map
$(BUILD)/lib/nccl/libnccl.so.2: $(INTERPOSE) $(call objects,src/interpose/nccl/forward.cc) $(CORE) src/interpose/stand_in.map
$(BUILD)/lib/libbps-nccl.so $(BUILD)/lib/nccl/libnccl.so.2:
	@mkdir -p $(@D)
	$(CXX) -shared $(LDFLAGS) -Wl,--version-script=$(filter %.map,$^) -Wl,-soname,$(@F) $(COMPLETE) \
	  -Wl,-z,nodelete -Wl,--exclude-libs,ALL -o $@ $(filter-out %.map,$^) $(CORE_LIBS)

# Every directory tools/NAME with a main.cc, and those in it, is a program; its name has - for _.
define tool
$(BUILD)/bin/$(subst _,-,$(1)): $(call objects,$(call sources,tools/command_line tools/$(1) $(wildcard tools/$(1)/*/))) $(SERVER) $(CORE)
	@mkdir -p $$(@D)
	$$(CXX) $$(LDFLAGS) -o $$@ $$^ $$(CORE_LIBS)
endef
$(foreach t,$(TOOLS),$(eval $(call tool,$(t))))

# How the kernel routes is asked as the TCP transport asks it.
$(BUILD)/bin/bps-topo: $(call objects,net_plugin/tcp/route.cc)

# Calls the library as any application does; only helpers (formatting, parsing) come from CORE.
$(BUILD)/bin/bps-perf: $(call objects,$(PERF_SRCS)) $(CORE) $(BUILD)/lib/libbps.so
	@mkdir -p $(@D)
	$(CXX) $(LDFLAGS) -o $@ $(call objects,$(PERF_SRCS)) -L$(BUILD)/lib -lbps $(CORE) $(CORE_LIBS) \
	  -Wl,-rpath,'$$ORIGIN/../lib'

$(eval $(call precompile,src/precompiled,src/precompiled.h,$(call objects,$(filter-out cpu_reduce/%,\
  $(CORE_SRCS) $(API_SRCS) $(INTERPOSE_SRCS) $(SERVER_SRCS) $(PLUGIN_SRCS) $(PERF_SRCS)))))
$(eval $(call precompile,tools/precompiled,src/precompiled.h,$(call objects,$(call sources,$(wildcard tools/*/ tools/*/*/)))))

include tests/tests.mk $(wildcard cpu_reduce/*.mk perf/*.mk)

run: deps ## build, start local servers and workers, all-reduce for real, check and print the table
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@tools/demo.sh $(BUILD)

test: deps ## everything CI needs: build, check, all test suites
	@$(MAKE) --no-print-directory -j$$(nproc) all tests
	@tests/run_all.sh $(BUILD)

test-gpu: all ## what needs a real NVIDIA GPU; says so where there is none
	@$(MAKE) --no-print-directory -j$$(nproc) $(BUILD)/tests/gpu $(BUILD)/tests/gpu_ranks
	@tests/gpu/run.sh $(BUILD)

GPU_KIT := bin/bps-run bin/bps-server bin/bps-perf lib/libbps.so lib/libbps-nccl.so lib/libnccl-net-bps.so tests/gpu tests/gpu_ranks
gpu-kit: all ## what tests/gpu/run.sh needs, stripped, to carry to a machine with a GPU: build/gpu-kit
	@$(MAKE) --no-print-directory -j$$(nproc) $(BUILD)/tests/gpu $(BUILD)/tests/gpu_ranks
	@for file in $(GPU_KIT); do install -D -s $(BUILD)/$$file $(BUILD)/gpu-kit/$$file; done; du -sh $(BUILD)/gpu-kit

check: all ## format, layers, sizes, lint, generated docs and symbols in step
	@tests/check/all.sh $(BUILD)

check-all: all tests ## check, and the long versions of fuzzing and the stress tests
	@tests/check/all.sh $(BUILD)
	@BPS_TEST_LONG=1 tests/run_all.sh $(BUILD)

fmt: ## format all sources in place
	@tests/check/format.sh --fix

docs: $(BUILD)/bin/bps-topo ## write the generated parts of the README
	@tests/check/docs.sh --fix $(BUILD)

install: all ## install under PREFIX
	install -d $(DESTDIR)$(PREFIX)/lib $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/include/bps
	install -m 755 $(filter-out %.so.2,$(LIBS)) $(DESTDIR)$(PREFIX)/lib
	install -D -m 755 -t $(DESTDIR)$(PREFIX)/lib/bps/nccl $(filter %.so.2,$(LIBS))
	install -m 755 $(BINS) $(DESTDIR)$(PREFIX)/bin
	install -m 644 include/bps/*.h $(DESTDIR)$(PREFIX)/include/bps

deps: ## install what is missing (apt)
	@tools/deps.sh

clean: ## remove all build output
	rm -rf build

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' Makefile

-include $(shell test -d $(BUILD)/obj && find $(BUILD)/obj -name '*.d')
