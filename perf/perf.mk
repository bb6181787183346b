# Micro-benchmarks: build/bench/NAME.json, and the table perf/NAME.md.
EXTRA_perf_bench_cpu_reduce_baselines := -O3 -march=native

bench: $(BUILD)/bench/bench_cpu_reduce ## micro-benchmarks, into build/bench and perf/*.md
	$< --benchmark_out=$(BUILD)/bench/cpu_reduce.json --benchmark_out_format=json
	perf/bench_cpu_reduce/table.py $(BUILD)/bench/cpu_reduce.json perf/cpu_reduce.md

$(BUILD)/bench/bench_cpu_reduce: $(call objects,$(call sources,perf/bench_cpu_reduce cpu_reduce src/base))
	@mkdir -p $(@D)
	$(CXX) $(LDFLAGS) -o $@ $^ -lbenchmark $(CORE_LIBS)
