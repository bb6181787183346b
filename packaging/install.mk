# make install and make uninstall, under $(DESTDIR)$(PREFIX). LIBDIR is the folder of the libraries in PREFIX, such as
# lib64.

LIBDIR ?= lib
# LIBDIR may also begin with PREFIX, as package builders write it.
INSTALL_LIBDIR   = $(patsubst $(PREFIX)/%,%,$(LIBDIR))
INSTALL_ROOT     = $(DESTDIR)$(PREFIX)
INSTALL_LIBS     = $(INSTALL_ROOT)/$(INSTALL_LIBDIR)
INSTALL_PROGRAMS = $(notdir $(BINS))
INSTALL_LIBBPS   = libbps.so.$(VERSION)
# From LIBDIR up to PREFIX: .. or ../..
INSTALL_UP       = $(subst $() ,/,$(patsubst %,..,$(subst /, ,$(INSTALL_LIBDIR))))
INSTALL_VALUES   = -e 's/@VERSION@/$(VERSION)/' -e 's/@SONAME@/$(SONAME)/' -e 's|@LIBDIR@|$(INSTALL_LIBDIR)|' \
  -e 's|@UP@|$(INSTALL_UP)|'
# All that uninstall removes. The folders hold nothing but files of bps.
INSTALL_HEADERS  = $(addprefix include/bps/,bps.h bps_ext.h params.h reducer.h)
# The date of the manual pages.
INSTALL_DATE     = $(or $(shell git log -1 --format=%cs 2>/dev/null),$(shell date -u -r include/bps/bps.h +%F))
INSTALLED_FILES  = $(addprefix $(INSTALL_LIBDIR)/,$(notdir $(filter-out %.so.2,$(LIBS))) $(SONAME) $(INSTALL_LIBBPS) \
  pkgconfig/bps.pc) $(foreach program,$(INSTALL_PROGRAMS),bin/$(program) share/man/man1/$(program).1 \
    share/bash-completion/completions/$(program) share/zsh/site-functions/_$(program)) \
  $(addprefix lib/systemd/system/,$(notdir $(SYSTEMD_UNITS))) \
  $(shell packaging/from_header.sh --list $(INSTALL_HEADERS) | sed 's|.*|share/man/man3/&.3|')
INSTALLED_FOLDERS = include/bps $(INSTALL_LIBDIR)/bps $(INSTALL_LIBDIR)/cmake/bps share/doc/bps
# The settings of the service are files of the administrator: neither install nor uninstall changes an edited one.
SYSTEMD_UNITS    = $(wildcard packaging/systemd/*.service packaging/systemd/*.socket)
SYSTEMD_SETTINGS = $(wildcard packaging/systemd/*.conf)
SYSCONFDIR      ?= $(if $(filter /usr /usr/local,$(PREFIX)),/etc,$(PREFIX)/etc)
INSTALL_SETTINGS = $(DESTDIR)$(SYSCONFDIR)/bps

install: all install-files ## install under PREFIX

check-install-folders:
	@[ -n "$(PREFIX)" ] || { echo "make: PREFIX is empty; give a folder, such as PREFIX=/usr/local" >&2; exit 1; }
	@case "/$(INSTALL_LIBDIR)/" in //*|*/../*) \
	  echo "make: LIBDIR=$(LIBDIR) must be a folder in PREFIX, such as lib64" >&2; exit 1;; esac

# bps-perf is linked once more, so that it finds the library in LIBDIR. RUNPATH= is for packages, whose folder the
# dynamic linker knows.
RUNPATH      ?= $$ORIGIN/../$(INSTALL_LIBDIR)
INSTALL_PERF := $(BUILD)/install/bps-perf
$(INSTALL_PERF): $(call objects,$(PERF_SRCS)) $(CORE) $(LIBBPS) FORCE
	@mkdir -p $(@D)
	@$(CXX) $(LDFLAGS) -o $@ $(filter %.o %.so,$^) $(CORE) $(LINK_WITH) $(if $(RUNPATH),-Wl$(comma)-rpath$(comma)'$(RUNPATH)')

install-files: check-install-folders $(INSTALL_PERF)
	install -d "$(INSTALL_LIBS)" "$(INSTALL_ROOT)/bin"
	install -s -m 755 $(LIBBPS) "$(INSTALL_LIBS)/$(INSTALL_LIBBPS)"
	ln -sf $(INSTALL_LIBBPS) "$(INSTALL_LIBS)/$(SONAME)"
	ln -sf $(SONAME) "$(INSTALL_LIBS)/$(notdir $(LIBBPS))"
	install -s -m 755 $(filter-out $(LIBBPS) %.so.2,$(LIBS)) "$(INSTALL_LIBS)"
	install -s -D -m 755 -t "$(INSTALL_LIBS)/bps/nccl" $(filter %.so.2,$(LIBS))
	install -s -m 755 $(filter-out $(PERF),$(BINS)) $(INSTALL_PERF) "$(INSTALL_ROOT)/bin"
	install -D -m 644 -t "$(INSTALL_ROOT)/include/bps" include/bps/*.h
	install -D -m 644 -t "$(INSTALL_LIBS)/cmake/bps" packaging/cmake/*.cmake
	install -D -m 644 -t "$(INSTALL_LIBS)/pkgconfig" packaging/bps.pc
	sed -i $(INSTALL_VALUES) "$(INSTALL_LIBS)/pkgconfig/bps.pc" "$(INSTALL_LIBS)"/cmake/bps/*.cmake
	install -D -m 644 -t "$(INSTALL_ROOT)/share/doc/bps" LICENSE
	install -D -m 644 -t "$(INSTALL_ROOT)/share/doc/bps/third-party" packaging/licences/*
	@cd "$(INSTALL_ROOT)" && install -d share/man/man1 share/bash-completion/completions share/zsh/site-functions
	@for program in $(INSTALL_PROGRAMS); do \
	  from_usage() { packaging/from_usage.sh $$1 $(BUILD)/bin/$$program $(VERSION) $(INSTALL_DATE) >"$(INSTALL_ROOT)/share/$$2"; }; \
	  from_usage man man/man1/$$program.1 && from_usage bash bash-completion/completions/$$program && \
	  from_usage zsh zsh/site-functions/_$$program || exit 1; done
	@for header in $(INSTALL_HEADERS); do \
	  packaging/from_header.sh $$header "$(INSTALL_ROOT)/share/man/man3" $(VERSION) $(INSTALL_DATE) || exit 1; done
	@for unit in $(SYSTEMD_UNITS); do install -D -m 644 -t "$(INSTALL_ROOT)/lib/systemd/system" $$unit && \
	  sed -i -e 's|/usr/bin/|$(PREFIX)/bin/|g' -e 's|/etc/bps/|$(SYSCONFDIR)/bps/|g' \
	    "$(INSTALL_ROOT)/lib/systemd/system/$$(basename $$unit)" || exit 1; done
	@for file in $(SYSTEMD_SETTINGS); do installed="$(INSTALL_SETTINGS)/$$(basename $$file)"; \
	  [ -e "$$installed" ] || install -D -m 644 $$file "$$installed" || exit 1; done

uninstall: check-install-folders ## remove what make install has written; give the same PREFIX, LIBDIR and DESTDIR
	rm -f $(patsubst %,"$(INSTALL_ROOT)/%",$(INSTALLED_FILES))
	rm -rf $(patsubst %,"$(INSTALL_ROOT)/%",$(INSTALLED_FOLDERS))
	@for file in $(SYSTEMD_SETTINGS); do installed="$(INSTALL_SETTINGS)/$$(basename $$file)"; \
	  if cmp -s $$file "$$installed"; then rm "$$installed"; \
	  elif [ -e "$$installed" ]; then echo "make: $$installed was edited and stays" >&2; fi; done
	@rmdir "$(INSTALL_SETTINGS)" 2>/dev/null || :

deb: all ## build/deb: packages for Debian and Ubuntu
	@packaging/deb/build.sh $(BUILD) $(VERSION) $(BUILD)/deb
	@ls $(BUILD)/deb/*_$(VERSION)_*.deb

rpm: all ## build/rpm: packages for Fedora, RHEL and openSUSE
	@packaging/rpm/build.sh $(BUILD) $(VERSION) $(BUILD)/rpm
	@ls $(BUILD)/rpm/*-$(VERSION)-*.rpm

.PHONY: deb rpm install-files uninstall check-install-folders
