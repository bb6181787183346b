# bps: build, test and run. Start with `make run` or `make test`; `make help` lists the rest.
#
#   make FLAVOUR=asan|tsan|tsa|fuzz TARGET    another build flavour, under build/FLAVOUR
#   make CXX=clang++-14 TARGET                another compiler (tsa and fuzz choose clang themselves)

FLAVOUR ?= release
BUILD   := $(if $(filter release,$(FLAVOUR)),build,build/$(FLAVOUR))
PREFIX  ?= /usr/local
CLANG   := $(firstword $(shell command -v clang++-14 clang++ 2>/dev/null) clang++)

ifeq ($(origin CXX),default)
CXX := $(if $(filter tsa fuzz,$(FLAVOUR)),$(CLANG),g++)
endif
ifeq ($(origin CC),default)
CC := gcc
endif
CCACHE := $(shell command -v ccache 2>/dev/null)

WARN     := -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror
CPPFLAGS += -I. -Iinclude -MMD -MP
CXXFLAGS ?= -O2 -g
CXXFLAGS += -std=c++20 -fPIC -fvisibility=hidden -fvisibility-inlines-hidden -pthread $(WARN)
LDFLAGS  += -pthread

FLAVOUR_asan := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
FLAVOUR_tsan := -O1 -g -fsanitize=thread -fno-omit-frame-pointer
FLAVOUR_tsa  := -fsyntax-only -Wthread-safety
FLAVOUR_fuzz := -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -DBPS_FUZZING
CXXFLAGS += $(FLAVOUR_$(FLAVOUR))
LDFLAGS  += $(filter -fsanitize=%,$(FLAVOUR_$(FLAVOUR)))

# A module is a directory; its sources are what lies in it.
sources  = $(sort $(foreach dir,$(1),$(wildcard $(dir)/*.cc)))
objects  = $(patsubst %.cc,$(BUILD)/obj/%.o,$(1))

CORE_SRCS   := $(call sources,src/base src/wire src/plan src/net src/control src/control/link src/control/hub src/control/root src/service src/comm cpu_reduce topo)
API_SRCS    := $(call sources,src/api)
SERVER_SRCS := $(call sources,src/server)
BASE_SRCS   := $(call sources,src/base)
PLUGIN_PARTS := $(call sources,net_plugin $(filter-out %/nccl,$(patsubst %/,%,$(wildcard net_plugin/*/))))
PLUGIN_SRCS := $(PLUGIN_PARTS) $(call sources,net_plugin/nccl) $(BASE_SRCS)
PERF_SRCS   := $(call sources,perf/app perf/workload)

CORE   := $(BUILD)/lib/libbps_core.a
SERVER := $(BUILD)/lib/libbps_server.a
LIBS   := $(addprefix $(BUILD)/lib/,libbps.so libnccl-net-bps.so)
TOOLS  := $(patsubst tools/%/,%,$(wildcard tools/*/))
BINS   := $(addprefix $(BUILD)/bin/,$(subst _,-,$(TOOLS)) $(if $(PERF_SRCS),bps-perf))

# Third-party code is linked statically or hidden: a preloaded object must not meet the application's copy of it.
SODIUM := -l:libsodium.a
# clang's OpenMP runtime is a package of its own; what clang builds here, for analysis and fuzzing, does without threads.
OPENMP := $(if $(findstring clang,$(CXX)),-Wno-source-uses-openmp,-fopenmp)
CORE_LIBS := $(SODIUM) $(filter -f%,$(OPENMP)) -ldl
CXXFLAGS += $(OPENMP)

.PHONY: all run test check check-all bench fmt docs install deps clean help tests ci
.DEFAULT_GOAL := all
.SECONDARY:
.DELETE_ON_ERROR:

all: $(LIBS) $(BINS) ## build the libraries and programs

$(BUILD)/obj/%.o: %.cc
	@mkdir -p $(@D)
	$(CCACHE) $(CXX) $(CPPFLAGS) $(CXXFLAGS) $(EXTRA_$(subst /,_,$*)) -c $< -o $@
	$(if $(filter tsa,$(FLAVOUR)),@touch $@)

$(CORE): $(call objects,$(CORE_SRCS))
$(SERVER): $(call objects,$(SERVER_SRCS))
$(CORE) $(SERVER):
	@mkdir -p $(@D)
	@rm -f $@
	ar rcs $@ $^

$(BUILD)/lib/libbps.so: $(call objects,$(API_SRCS)) $(CORE) src/api/libbps.map
	@mkdir -p $(@D)
	$(CXX) -shared $(LDFLAGS) -Wl,--version-script=src/api/libbps.map -Wl,-soname,libbps.so -Wl,--no-undefined \
	  -Wl,--exclude-libs,ALL -o $@ $(call objects,$(API_SRCS)) $(CORE) $(CORE_LIBS)

$(BUILD)/lib/libnccl-net-bps.so: $(call objects,$(PLUGIN_SRCS)) net_plugin/plugin.map
	@mkdir -p $(@D)
	$(CXX) -shared $(LDFLAGS) -Wl,--version-script=net_plugin/plugin.map -Wl,-soname,libnccl-net-bps.so \
	  -Wl,--no-undefined -Wl,-z,nodelete -Wl,--exclude-libs,ALL -o $@ $(call objects,$(PLUGIN_SRCS)) $(SODIUM) -ldl

# Every directory tools/bps_NAME is the program bps-NAME.
define tool
$(BUILD)/bin/$(subst _,-,$(1)): $(call objects,$(call sources,tools/$(1))) $(SERVER) $(CORE)
	@mkdir -p $$(@D)
	$$(CXX) $$(LDFLAGS) -o $$@ $$^ $$(CORE_LIBS)
endef
$(foreach t,$(TOOLS),$(eval $(call tool,$(t))))

# Calls the library as any application does; only helpers (formatting, parsing) come from CORE.
$(BUILD)/bin/bps-perf: $(call objects,$(PERF_SRCS)) $(CORE) $(BUILD)/lib/libbps.so
	@mkdir -p $(@D)
	$(CXX) $(LDFLAGS) -o $@ $(call objects,$(PERF_SRCS)) -L$(BUILD)/lib -lbps $(CORE) $(CORE_LIBS) \
	  -Wl,-rpath,'$$ORIGIN/../lib'

include tests/tests.mk

run: deps ## build, start local servers and workers, all-reduce for real, check and print the table
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@tools/demo.sh $(BUILD)

test: deps ## everything CI needs: build, check, all test suites
	@$(MAKE) --no-print-directory -j$$(nproc) all tests
	@tests/run_all.sh $(BUILD)

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
	install -m 755 $(LIBS) $(DESTDIR)$(PREFIX)/lib
	install -m 755 $(BINS) $(DESTDIR)$(PREFIX)/bin
	install -m 644 include/bps/*.h $(DESTDIR)$(PREFIX)/include/bps

deps: ## install what is missing (apt)
	@tools/deps.sh

clean: ## remove all build output
	rm -rf build

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' Makefile

-include $(shell test -d $(BUILD)/obj && find $(BUILD)/obj -name '*.d')
