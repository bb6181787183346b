# Test programs: tests/unit/*.cc -> build/tests/unit, tests/inproc -> build/tests/inproc, tests/multiproc -> ...
TEST_SUITES := $(patsubst tests/%/,%,$(wildcard tests/unit/ tests/inproc/ tests/multiproc/))
TEST_LIBS   := -lgtest -lgmock -lgtest_main

define suite
$(BUILD)/tests/$(1): $(call objects,$(call sources,tests/$(1) $(wildcard tests/$(1)/*/) tests/support)) $(call objects,$(PLUGIN_PARTS) $(API_SRCS)) $(SERVER) $(CORE)
	@mkdir -p $$(@D)
	$$(CXX) $$(LDFLAGS) -o $$@ $$^ $$(TEST_LIBS) $$(CORE_LIBS)
endef
$(foreach s,$(TEST_SUITES),$(eval $(call suite,$(s))))

tests: $(addprefix $(BUILD)/tests/,$(TEST_SUITES)) $(LIBS) $(BINS)
