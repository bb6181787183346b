# bps: build, test and run. Start with `make run` or `make test`; `make help` lists all targets.
#
#   make FLAVOUR=asan|tsan|tsa TARGET    another build flavour, under build/FLAVOUR; fuzz is another name for asan
#   make CXX=clang++-14 TARGET           another compiler

FLAVOUR ?= release
ifeq ($(FLAVOUR),fuzz)
override FLAVOUR := asan
endif
BUILD  := $(if $(filter release,$(FLAVOUR)),build,build/$(FLAVOUR))
# One folder has one name, however it is given. Objects name themselves in their .d files.
override BUILD := $(patsubst $(CURDIR)/%,%,$(abspath $(BUILD)))
PREFIX ?= /usr/local
# The one place of the version is bps.h.
VERSION := $(shell awk '/define BPS_(MAJOR|MINOR|PATCH) /{ printf "%s%s", dot, $$3; dot = "." }' include/bps/bps.h)
# Programs need libbps by this name, the soname. It changes with the major number.
SONAME  := libbps.so.$(firstword $(subst ., ,$(VERSION)))
CCACHE := $(if $(CCACHE_DISABLE),,$(shell command -v ccache 2>/dev/null))
# The cache ignores the build directory, so several clones share their objects.
export CCACHE_NOHASHDIR := 1

# The compiler is the first g++ of version 12 or newer. The other flavours use clang if its sanitizers are installed:
# clang compiles sanitized code three times as fast as g++, checks locks and has a fuzzer.
ifeq ($(origin CXX),default)
CXX := $(or $(shell for c in g++ g++-14 g++-13 g++-12; do [ "$$($$c -dumpversion 2>/dev/null | cut -d. -f1)" -ge 12 ] \
  2>/dev/null && echo $$c && break; done),g++)
ifneq ($(FLAVOUR),release)
CLANG := $(firstword $(shell command -v clang++-14 clang++ 2>/dev/null))
CXX   := $(or $(shell echo 'int main() {}' | $(CLANG) -x c++ - -fsanitize=address -o /dev/null 2>/dev/null \
  && echo $(CLANG)),g++)
endif
endif
ifeq ($(origin CC),default)
CC := gcc
endif
IS_CLANG := $(findstring clang,$(CXX))
comma    := ,

# Warnings are errors with the two tested compilers only. Other versions have other warnings.
TESTED   := $(filter $(if $(IS_CLANG),14,12).%,$(shell $(CXX) -dumpfullversion -dumpversion))
WARN     := -Wall -Wextra -Wpedantic -Wconversion -Wshadow $(if $(IS_CLANG),-Wthread-safety) $(if $(TESTED),-Werror)
# The package of clang has no OpenMP runtime. Code that clang builds is for analysis and tests, and runs one thread.
OPENMP   := $(if $(IS_CLANG),-Wno-source-uses-openmp,-fopenmp)
CPPFLAGS += -I. -Iinclude -MMD -MP
# -g1: backtraces with line numbers. Full debug information makes compilation a third longer.
CXXFLAGS ?= -O2 -g1
CXXFLAGS += -std=c++20 -fPIC -fvisibility=hidden -fvisibility-inlines-hidden -pthread $(WARN)
LDFLAGS  += -pthread

SANITIZED    := -DBPS_SANITIZED -O1 -g1 -fno-sanitize-recover=all -fno-omit-frame-pointer \
  $(if $(IS_CLANG),,-Wno-maybe-uninitialized)
FLAVOUR_asan := $(SANITIZED) -fsanitize=address,undefined
FLAVOUR_tsan := $(SANITIZED) -fsanitize=thread
FLAVOUR_tsa  := -fsyntax-only
CXXFLAGS += $(FLAVOUR_$(FLAVOUR)) $(OPENMP)
LDFLAGS  += $(filter -fsanitize=%,$(FLAVOUR_$(FLAVOUR)))

# RDMA verbs: `ib` with the headers of libibverbs-dev, or `without`. The library itself is loaded at run time.
# has-header HEADER. Versions of make differ in whether \# in a function call is a plain #.
HASH := \#
has-header = $(shell echo '$(HASH)include <$(1)>' | $(CXX) -E -x c++ - >/dev/null 2>&1 && echo yes)
VERBS ?= $(if $(call has-header,infiniband/verbs.h),ib,without)

# Modules. Each is a list of directories, with all sources in them and below.
ALL_SRCS := $(sort $(shell find src net_plugin cpu_reduce topo tools perf tests -name '*.cc'))
ifeq ($(VERBS),without)
ALL_SRCS := $(filter-out net_plugin/verbs/ib/% tests/unit/net_plugin/verbs/ib/%,$(ALL_SRCS))
else
ALL_SRCS := $(filter-out net_plugin/verbs/without/%,$(ALL_SRCS))
endif
sources = $(filter $(addsuffix /%,$(1)),$(ALL_SRCS))
objects = $(patsubst %.cc,$(BUILD)/obj/%.o,$(1))

API_SRCS       := $(call sources,src/api src/nccl src/reducer)
INTERPOSE_SRCS := $(call sources,src/interpose)
SERVER_SRCS    := $(call sources,src/server)
BASE_SRCS      := $(call sources,src/base)
CORE_SRCS      := $(filter-out $(API_SRCS) $(INTERPOSE_SRCS) $(SERVER_SRCS),$(call sources,src cpu_reduce topo))
PLUGIN_PARTS   := $(filter-out net_plugin/nccl/%,$(call sources,net_plugin))
PLUGIN_SRCS    := $(call sources,net_plugin) $(BASE_SRCS)
PERF_SRCS      := $(call sources,perf/app perf/report perf/workload)

CORE   := $(BUILD)/lib/libbps_core.a
SERVER := $(BUILD)/lib/libbps_server.a
LIBBPS := $(BUILD)/lib/libbps.so
PLUGIN := $(BUILD)/lib/libnccl-net-bps.so
LIBS   := $(LIBBPS) $(PLUGIN) $(BUILD)/lib/libbps-nccl.so $(BUILD)/lib/nccl/libnccl.so.2
# Each tools/NAME with a main.cc is a program. The program's name has "-" in place of "_".
TOOLS  := $(addprefix $(BUILD)/bin/,$(subst _,-,$(patsubst tools/%/main.cc,%,$(wildcard tools/*/main.cc))))
PERF   := $(BUILD)/bin/bps-perf
BINS   := $(TOOLS) $(PERF)

.PHONY: all run test test-torch test-gpu gpu-kit check check-all bench fmt docs ptx install deps clean help tests FORCE
.DEFAULT_GOAL := all
.SECONDARY:
.DELETE_ON_ERROR:
# Allows $$* and $$(...) in prerequisites: make expands them once the target's name is known.
.SECONDEXPANSION:

all: $(LIBS) $(BINS) $(if $(filter release,$(FLAVOUR)),compile_commands.json) ## build the libraries and programs

# Compilation. All objects are rebuilt if the compiler or its options change.
$(BUILD)/command: FORCE
	@mkdir -p $(@D)
	@echo '$(CXX) $(CPPFLAGS) $(CXXFLAGS) $(VERBS)' | cmp -s - $@ || echo '$(CXX) $(CPPFLAGS) $(CXXFLAGS) $(VERBS)' > $@

$(BUILD)/obj/%.o: %.cc $(BUILD)/command
	@mkdir -p $(@D)
	$(CCACHE) $(CXX) $(addprefix -include ,$(PRECOMPILED)) $(CPPFLAGS) $(CXXFLAGS) -c $< -o $@
	$(if $(filter tsa,$(FLAVOUR)),@touch $@)

# Tests and command lines are compiled without optimization, because their own speed matters little.
QUICK_release := -O0 -g1
QUICK_asan    := -O0
QUICK_tsan    := -O0
$(BUILD)/obj/tools/%: private CXXFLAGS += $(QUICK_$(FLAVOUR))

# Precompiled headers save a third of a build from nothing. ccache does without them, because its entries would be valid
# in one directory only. The flavour tsa does without them, because there each source must include what it uses. Headers
# are compiled once for each set of options: for the product, for tools and for tests.
PRECOMPILE ?= $(if $(CCACHE)$(filter tsa,$(FLAVOUR)),,yes)
$(BUILD)/obj/%/precompiled.h.gch: $(BUILD)/command
	@mkdir -p $(@D)
	$(CXX) $(CPPFLAGS) $(CXXFLAGS) $(if $(IS_CLANG),-fpch-instantiate-templates) -x c++-header \
	  $(firstword $(filter %.h,$^)) -o $@
$(BUILD)/obj/src/precompiled.h.gch $(BUILD)/obj/tools/precompiled.h.gch: src/precompiled.h

ifeq ($(PRECOMPILE),yes)
PRODUCT_OBJS := $(call objects,$(filter-out cpu_reduce/%,$(call sources,src net_plugin topo) $(PERF_SRCS)))
$(PRODUCT_OBJS): private PRECOMPILED := $(BUILD)/obj/src/precompiled.h
$(PRODUCT_OBJS): $(BUILD)/obj/src/precompiled.h.gch
$(call objects,$(call sources,tools)): private PRECOMPILED := $(BUILD)/obj/tools/precompiled.h
$(call objects,$(call sources,tools)): $(BUILD)/obj/tools/precompiled.h.gch
endif

# clangd reads this. The file changes only if a source or an option does.
compile_commands.json: $(BUILD)/command FORCE
	@{ separator='['; for source in $(ALL_SRCS); do \
	  echo "$$separator"'{"directory": "$(CURDIR)", "command": "$(CXX) $(CPPFLAGS) $(CXXFLAGS) -c '$$source'",'; \
	  echo ' "file": "'$$source'"}'; separator=','; done; echo ']'; } >$(BUILD)/compile_commands.new
	@cmp -s $(BUILD)/compile_commands.new $@ || cp $(BUILD)/compile_commands.new $@

# Linking. A program or library consists of its prerequisites that are objects, libraries or a version script.
# Third-party libraries are linked statically or hidden, so that a preloaded library never meets the application's copy.
# Some systems do not have the static libraries.
static    = $(if $(filter /%,$(shell $(CXX) -print-file-name=lib$(1).a)),-l:lib$(1).a,-l$(1))
SODIUM    := $(call static,sodium)
CORE_LIBS := $(SODIUM) $(call static,expat) $(filter -f%,$(OPENMP)) -ldl
LINK_WITH  = $(CORE_LIBS)
# The sanitizer runtimes of clang are part of the program, so a sanitized library leaves their symbols undefined.
COMPLETE  := $(if $(IS_CLANG),,-Wl$(comma)--no-undefined)
HIDDEN    := $(COMPLETE) -Wl,--exclude-libs,ALL
RESIDENT  := -Wl,-z,nodelete

define archive
@mkdir -p $(@D)
@rm -f $@
ar rcs $@ $^
endef
define link-program
@mkdir -p $(@D)
$(CXX) $(LDFLAGS) -o $@ $(filter %.o %.so %.so.2,$^) $(filter %.a,$^) $(LINK_WITH) \
  $(if $(filter $(LIBBPS),$^),-Wl$(comma)-rpath$(comma)'$$ORIGIN/../lib')
endef
define link-library
@mkdir -p $(@D)
$(CXX) -shared $(LDFLAGS) $(patsubst %,-Wl$(comma)--version-script=%,$(filter %.map,$^)) -Wl,-soname,$(or $(LIBRARY_SONAME),$(@F)) \
  $(LIBRARY_OPTIONS) -o $@ $(filter %.o %.a,$^) $(LINK_WITH)
endef

$(CORE): $(call objects,$(CORE_SRCS))
	$(archive)
$(SERVER): $(call objects,$(SERVER_SRCS))
	$(archive)

$(LIBBPS): $(call objects,$(API_SRCS)) $(CORE) src/api/libbps.map
# A signal handler may stay installed (BPS_DUMP_SIGNAL), so the library stays in memory after dlclose().
# The version script alone hides what is not listed: --exclude-libs would also hide bpsHeaderVersion.
$(LIBBPS): private LIBRARY_OPTIONS := $(COMPLETE) $(RESIDENT)
$(LIBBPS): private LIBRARY_SONAME := $(SONAME)
# An older build folder has the library under another name.
$(LIBBPS): $(BUILD)/soname
$(BUILD)/soname: FORCE
	@mkdir -p $(@D)
	@echo '$(SONAME)' | cmp -s - $@ || echo '$(SONAME)' > $@

$(PLUGIN): $(call objects,$(PLUGIN_SRCS)) net_plugin/plugin.map
$(PLUGIN): private LIBRARY_OPTIONS := $(HIDDEN) $(RESIDENT)
$(PLUGIN): private LINK_WITH := $(SODIUM) -ldl

# The interposer stands between a program and NCCL: once for LD_PRELOAD, and once under NCCL's name for programs that
# open NCCL themselves. It contains all of bps except the net plugin, which is a file beside it.
FORWARD   := src/interpose/nccl/forward.cc
INTERPOSE := $(call objects,$(filter-out $(FORWARD),$(INTERPOSE_SRCS)) $(API_SRCS))
$(BUILD)/lib/libbps-nccl.so: $(INTERPOSE) $(CORE) src/interpose/preload.map
$(BUILD)/lib/nccl/libnccl.so.2: $(INTERPOSE) $(call objects,$(FORWARD)) $(CORE) src/interpose/stand_in.map
$(BUILD)/lib/libbps-nccl.so $(BUILD)/lib/nccl/libnccl.so.2: private LIBRARY_OPTIONS := $(HIDDEN) $(RESIDENT)

$(LIBS):
	$(link-library)
	$(if $(LIBRARY_SONAME),@ln -sf $(@F) $(@D)/$(LIBRARY_SONAME))

$(TOOLS): $(BUILD)/bin/%: $$(call objects,$$(call sources,tools/command_line tools/$$(subst -,_,$$*))) $(SERVER) $(CORE)
	$(link-program)
# bps-topo asks the kernel for routes in the same way as the TCP transport.
$(BUILD)/bin/bps-topo: $(call objects,net_plugin/tcp/route.cc)

# bps-doctor checks servers as bps-server --check does, and calls the library as an application does.
$(BUILD)/bin/bps-doctor: $(call objects,$(call sources,tools/bps_server/check)) $(LIBBPS)

# bps-perf calls the library as an application does. Only helpers such as formatting and parsing come from CORE.
$(PERF): $(call objects,$(PERF_SRCS)) $(CORE) $(LIBBPS)
	$(link-program)

include tests/tests.mk $(wildcard cpu_reduce/*.mk perf/*.mk)

run: deps ## build, run an all-reduce with local servers and workers, check it and print the table
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@tools/demo.sh $(BUILD)

test: deps ## everything that CI runs: build, checks and all test suites
	@$(MAKE) --no-print-directory -j$$(nproc) all tests
	@tests/run_all.sh $(BUILD)

test-torch: deps ## the tests of the PyTorch backend; installs PyTorch in build/torch if the machine has none
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@tests/torch/run.sh $(BUILD)

test-gpu: all $(GPU_TEST) $(GPU_RANKS) ## the tests that need a real NVIDIA GPU; without one it says so
	@tests/gpu/run.sh $(BUILD)

GPU_KIT := $(addprefix bin/,bps-run bps-server bps-perf) \
  $(addprefix lib/,$(SONAME) libbps-nccl.so libnccl-net-bps.so) $(addprefix tests/,gpu gpu_ranks)
GPU_KIT_SCRIPTS := $(wildcard tests/gpu/*.sh) examples/ddp.py
gpu-kit: all $(GPU_TEST) $(GPU_RANKS) ## build/gpu-kit: all that a machine with a GPU needs to run the tests: run.sh
	@rm -rf $(BUILD)/gpu-kit
	@for file in $(GPU_KIT); do install -D -s $(BUILD)/$$file $(BUILD)/gpu-kit/$$file; done
	@install -D -t $(BUILD)/gpu-kit/lib/gomp $$($(CXX) -print-file-name=libgomp.so.1)
	@install -t $(BUILD)/gpu-kit $(GPU_KIT_SCRIPTS)
	@install -D -m 644 -t $(BUILD)/gpu-kit/data examples/data/digits.bin
	@git log -1 --format='commit %h' >$(BUILD)/gpu-kit/commit 2>/dev/null || echo 'commit not known' >$(BUILD)/gpu-kit/commit
	@du -sh $(BUILD)/gpu-kit

check: all ## format, layers, sizes, words, headers, symbols, needed versions, generated docs and lint
	@tests/check/all.sh $(BUILD)

check-all: all tests ## check, and the long versions of fuzzing and stress tests
	@tests/check/all.sh $(BUILD)
	@BPS_TEST_LONG=1 tests/run_all.sh $(BUILD)

fmt: ## format all sources in place
	@tests/check/format.sh --fix

docs: $(BUILD)/bin/bps-topo ## write the generated parts of the documents, and their picture
	@tests/check/docs.sh --fix $(BUILD)

ptx: ## write the kernel for GPUs, src/cuda/sum/sum_kernel.ptx (clang++-14)
	@tests/check/ptx.sh --fix

include packaging/install.mk

deps: ## install missing packages (apt, dnf or zypper)
	@tools/deps.sh

clean: ## remove all build output
	rm -rf build

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' Makefile packaging/install.mk

-include $(shell test -d $(BUILD)/obj && find $(BUILD)/obj -name '*.d')
