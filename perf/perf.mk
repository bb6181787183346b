# The micro-benchmarks write build/bench/NAME.json and the table perf/NAME.md.
BENCH := $(BUILD)/bench/bench_cpu_reduce
$(BUILD)/obj/perf/bench_cpu_reduce/baselines.o: private CXXFLAGS += -O3 -march=native
$(BENCH): $(call objects,$(call sources,perf/bench_cpu_reduce cpu_reduce) $(BASE_SRCS))
	$(link-program)
$(BENCH): private LINK_WITH := -lbenchmark $(CORE_LIBS)

bench: $(BENCH) ## micro-benchmarks, into build/bench and perf/*.md
	$< --benchmark_out=$(BUILD)/bench/cpu_reduce.json --benchmark_out_format=json
	perf/bench_cpu_reduce/table.py $(BUILD)/bench/cpu_reduce.json perf/cpu_reduce.md

# perf/emulated_cluster --rtt starts this program.
DELAY_LINE := $(BUILD)/perf/delay-line
all: $(DELAY_LINE)
$(DELAY_LINE): $(call objects,$(call sources,perf/delay_line) $(BASE_SRCS))
	$(link-program)
$(DELAY_LINE): private LINK_WITH :=

# The ranks of perf/priority_bench.
PRIORITY_RANKS := $(BUILD)/perf/priority-ranks
all: $(PRIORITY_RANKS)
$(PRIORITY_RANKS): $(call objects,$(call sources,perf/priority)) $(LIBBPS)
	$(link-program)
$(PRIORITY_RANKS): private LINK_WITH :=
