# make install and make uninstall, under $(DESTDIR)$(PREFIX).

INSTALL_VERSION := $(shell awk '/define BPS_(MAJOR|MINOR|PATCH) /{ printf "%s%s", dot, $$3; dot = "." }' include/bps/bps.h)
INSTALL_ROOT     = $(DESTDIR)$(PREFIX)
INSTALL_PROGRAMS = $(notdir $(BINS))
# All that uninstall removes. The folders hold nothing but files of bps.
INSTALLED_FILES  = $(addprefix lib/,$(notdir $(filter-out %.so.2,$(LIBS)))) lib/pkgconfig/bps.pc \
  $(foreach program,$(INSTALL_PROGRAMS),bin/$(program) share/man/man1/$(program).1 \
    share/bash-completion/completions/$(program))
INSTALLED_FOLDERS = include/bps lib/bps lib/cmake/bps share/doc/bps
# The packages whose code the libraries and programs contain.
THIRD_PARTY := libsodium-dev libexpat1-dev libfmt-dev libhwy-dev nlohmann-json3-dev libcli11-dev

install: all install-files ## install under PREFIX

install-files:
	@[ -n "$(PREFIX)" ] || { echo "make: PREFIX is empty; give a folder, such as PREFIX=/usr/local" >&2; exit 1; }
	install -d "$(INSTALL_ROOT)/lib" "$(INSTALL_ROOT)/bin"
	install -s -m 755 $(filter-out %.so.2,$(LIBS)) "$(INSTALL_ROOT)/lib"
	install -s -D -m 755 -t "$(INSTALL_ROOT)/lib/bps/nccl" $(filter %.so.2,$(LIBS))
	install -s -m 755 $(BINS) "$(INSTALL_ROOT)/bin"
	install -D -m 644 -t "$(INSTALL_ROOT)/include/bps" include/bps/*.h
	install -D -m 644 -t "$(INSTALL_ROOT)/lib/cmake/bps" packaging/cmake/*.cmake
	install -D -m 644 -t "$(INSTALL_ROOT)/lib/pkgconfig" packaging/bps.pc
	sed -i 's/@VERSION@/$(INSTALL_VERSION)/' "$(INSTALL_ROOT)/lib/pkgconfig/bps.pc" "$(INSTALL_ROOT)"/lib/cmake/bps/*.cmake
	install -D -m 644 -t "$(INSTALL_ROOT)/share/doc/bps" LICENSE
	@for package in $(THIRD_PARTY); do \
	  if [ -f /usr/share/doc/$$package/copyright ]; then \
	    install -D -m 644 /usr/share/doc/$$package/copyright "$(INSTALL_ROOT)/share/doc/bps/third-party/$$package"; \
	  else echo "make: no /usr/share/doc/$$package/copyright: its licence is not installed" >&2; fi; done
	@install -d "$(INSTALL_ROOT)/share/man/man1" "$(INSTALL_ROOT)/share/bash-completion/completions"
	@for program in $(INSTALL_PROGRAMS); do \
	  packaging/from_usage.sh man $(BUILD)/bin/$$program $(INSTALL_VERSION) >"$(INSTALL_ROOT)/share/man/man1/$$program.1" && \
	  packaging/from_usage.sh bash $(BUILD)/bin/$$program >"$(INSTALL_ROOT)/share/bash-completion/completions/$$program" || \
	  exit 1; done

uninstall: ## remove what make install has written; give the same PREFIX and DESTDIR
	@[ -n "$(PREFIX)" ] || { echo "make: PREFIX is empty; give the one of make install" >&2; exit 1; }
	rm -f $(patsubst %,"$(INSTALL_ROOT)/%",$(INSTALLED_FILES))
	rm -rf $(patsubst %,"$(INSTALL_ROOT)/%",$(INSTALLED_FOLDERS))

.PHONY: install-files uninstall
