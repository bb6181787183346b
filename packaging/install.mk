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
INSTALLED_FILES  = $(addprefix $(INSTALL_LIBDIR)/,$(notdir $(filter-out %.so.2,$(LIBS))) $(SONAME) $(INSTALL_LIBBPS) \
  pkgconfig/bps.pc) $(foreach program,$(INSTALL_PROGRAMS),bin/$(program) share/man/man1/$(program).1 \
    share/bash-completion/completions/$(program) share/zsh/site-functions/_$(program))
INSTALLED_FOLDERS = include/bps $(INSTALL_LIBDIR)/bps $(INSTALL_LIBDIR)/cmake/bps share/doc/bps
# The packages whose code the libraries and programs contain.
THIRD_PARTY := libsodium-dev libexpat1-dev libfmt-dev libhwy-dev nlohmann-json3-dev libcli11-dev

install: all install-files ## install under PREFIX

check-install-folders:
	@[ -n "$(PREFIX)" ] || { echo "make: PREFIX is empty; give a folder, such as PREFIX=/usr/local" >&2; exit 1; }
	@case "/$(INSTALL_LIBDIR)/" in //*|*/../*) \
	  echo "make: LIBDIR=$(LIBDIR) must be a folder in PREFIX, such as lib64" >&2; exit 1;; esac

install-files: check-install-folders
	install -d "$(INSTALL_LIBS)" "$(INSTALL_ROOT)/bin"
	install -s -m 755 $(LIBBPS) "$(INSTALL_LIBS)/$(INSTALL_LIBBPS)"
	ln -sf $(INSTALL_LIBBPS) "$(INSTALL_LIBS)/$(SONAME)"
	ln -sf $(SONAME) "$(INSTALL_LIBS)/$(notdir $(LIBBPS))"
	install -s -m 755 $(filter-out $(LIBBPS) %.so.2,$(LIBS)) "$(INSTALL_LIBS)"
	install -s -D -m 755 -t "$(INSTALL_LIBS)/bps/nccl" $(filter %.so.2,$(LIBS))
	install -s -m 755 $(BINS) "$(INSTALL_ROOT)/bin"
	install -D -m 644 -t "$(INSTALL_ROOT)/include/bps" include/bps/*.h
	install -D -m 644 -t "$(INSTALL_LIBS)/cmake/bps" packaging/cmake/*.cmake
	install -D -m 644 -t "$(INSTALL_LIBS)/pkgconfig" packaging/bps.pc
	sed -i $(INSTALL_VALUES) "$(INSTALL_LIBS)/pkgconfig/bps.pc" "$(INSTALL_LIBS)"/cmake/bps/*.cmake
	install -D -m 644 -t "$(INSTALL_ROOT)/share/doc/bps" LICENSE
	@for package in $(THIRD_PARTY); do \
	  if [ -f /usr/share/doc/$$package/copyright ]; then \
	    install -D -m 644 /usr/share/doc/$$package/copyright "$(INSTALL_ROOT)/share/doc/bps/third-party/$$package"; \
	  else echo "make: no /usr/share/doc/$$package/copyright: its licence is not installed" >&2; fi; done
	@cd "$(INSTALL_ROOT)" && install -d share/man/man1 share/bash-completion/completions share/zsh/site-functions
	@for program in $(INSTALL_PROGRAMS); do \
	  from_usage() { packaging/from_usage.sh $$1 $(BUILD)/bin/$$program $(VERSION) >"$(INSTALL_ROOT)/share/$$2"; }; \
	  from_usage man man/man1/$$program.1 && from_usage bash bash-completion/completions/$$program && \
	  from_usage zsh zsh/site-functions/_$$program || exit 1; done

uninstall: check-install-folders ## remove what make install has written; give the same PREFIX, LIBDIR and DESTDIR
	rm -f $(patsubst %,"$(INSTALL_ROOT)/%",$(INSTALLED_FILES))
	rm -rf $(patsubst %,"$(INSTALL_ROOT)/%",$(INSTALLED_FOLDERS))

deb: all ## build/deb: packages for Debian and Ubuntu
	@packaging/deb/build.sh $(BUILD) $(VERSION) $(BUILD)/deb
	@ls $(BUILD)/deb/*_$(VERSION)_*.deb

.PHONY: deb install-files uninstall check-install-folders
