# The front door. 'make demo' and 'make check' need nothing but a Debian or
# Ubuntu machine: they install the packages they miss, build in build/ and run.
SHELL := /bin/sh
BUILD := build
CMAKE := cmake -G Ninja -S .
NINJA := ninja
# Three at a time on two processors: some tests wait more than they compute, for
# a rank that is lost, a run that is killed, a disk.
CTEST := ctest -j3 --output-on-failure --no-tests=error --test-dir
PREFIX ?= /usr/local

.PHONY: all demo check check-build check-asan check-tests check-code check-long \
	check-peers bench asan fuzz format paper golden-update install uninstall \
	wheel sdist dist deb site \
	clean configure deps-build deps-check deps-peers deps-deb

all: deps-build $(BUILD)/build.ninja
	@$(NINJA) -C $(BUILD) installed

deps-build deps-check deps-peers deps-deb:
	@tools/deps.sh $(@:deps-%=%)

# Tests exist once deps-check has installed what they need: look again.
$(BUILD)/build.ninja configure:
	@$(CMAKE) -B $(BUILD) -DCMAKE_C_COMPILER=gcc >/dev/null

demo: all
	@examples/demo.sh $(BUILD)/paradl

# Everything a change must pass, in three parts: both builds; the unit tests
# under AddressSanitizer and UBSan, in brief (see tests/effort.h); then every
# test and the rules of the house. The last line is ctest's.
.NOTPARALLEL:
check: check-build check-asan check-tests

ASAN := -DCMAKE_C_COMPILER=gcc -DPDL_SANITIZE=address,undefined -DPDL_CUDA=off \
	-DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG="-Og -g1"

check-build: deps-check configure
	@$(NINJA) -C $(BUILD)
	@$(CMAKE) -B $(BUILD)/asan $(ASAN) >/dev/null
	@$(NINJA) -C $(BUILD)/asan

check-asan:
	@PDL_SHORT=1 $(CTEST) $(BUILD)/asan -L unit

check-tests:
	@$(CTEST) $(BUILD) -LE '^code$$'

# Other compilers', analysers' and MPIs' view of the code: clang, clang-tidy,
# cppcheck, MPICH.
check-code: deps-check configure
	@$(NINJA) -C $(BUILD)
	@$(CTEST) $(BUILD) -L '^code$$'

asan: deps-check
	@$(CMAKE) -B $(BUILD)/asan $(ASAN) >/dev/null
	@$(NINJA) -C $(BUILD)/asan
	@$(CTEST) $(BUILD)/asan -L unit

check-long: check check-code
	@$(CTEST) $(BUILD)/asan -L unit
	@$(CMAKE) -B $(BUILD)/clang -DCMAKE_C_COMPILER=clang \
	    -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS=-g0 >/dev/null
	@$(NINJA) -C $(BUILD)/clang
	@PDL_LONG=1 $(CTEST) $(BUILD) -L unit
	@PDL_LONG=1 $(CTEST) $(BUILD) -L '^run$$'
	@PDL_LONG=1 tests/peers/text_torch.sh $(BUILD)/paradl || [ $$? = 77 ]
	@PDL_LONG=1 tests/peers/wheel.sh $(BUILD)/paradl || [ $$? = 77 ]
	@PDL_LONG=1 tests/peers/packages.sh $(BUILD)/paradl || [ $$? = 77 ]
	@packaging/aarch64.sh $(BUILD)/paradl || [ $$? = 77 ]
	@PDL_LONG=1 tests/peers/simgrid_flows.sh $(BUILD)/paradl || [ $$? = 77 ]
	@PDL_LONG=1 tools/check-tidy.sh $(BUILD)
	@tools/select-form.py $(BUILD)/paradl tests/data/oracle/runs.json \
	    tests/data/oracle/layers_fp32.json

check-peers: deps-peers all
	@tests/peers/run.sh $(BUILD)/paradl

paper: deps-check configure
	@$(NINJA) -C $(BUILD)
	@rm -f $(BUILD)/paper.tsv
	@PDL_PAPER=1 PDL_PAPER_LIST=$(CURDIR)/$(BUILD)/paper.tsv \
	    $(CTEST) $(BUILD) -R '^paper/'
	@tools/paper-page.py $(BUILD)/paper.tsv $(BUILD)/paper.html

# FUZZ_S seconds for each parser, starting from the stored corpus.
FUZZ_S ?= 180
fuzz: deps-check
	@$(CMAKE) -B $(BUILD)/fuzz -DCMAKE_C_COMPILER=clang -DPDL_FUZZ=ON \
	    -DPDL_SANITIZE=address,undefined >/dev/null
	@$(NINJA) -C $(BUILD)/fuzz fuzz_targets
	@tools/fuzz.sh $(BUILD)/fuzz $(FUZZ_S) $(FUZZ)

bench: all
	@bench/run.sh $(BUILD)/paradl

format:
	@find src include tests examples -name '*.[ch]' | xargs clang-format -i

golden-update: all
	@tests/cli/run.sh $(BUILD)/paradl --update

# DESTDIR works too; the linker's cache knows a library only after ldconfig.
install: all
	@cmake --install $(BUILD) --prefix $(PREFIX)
	@mv $(BUILD)/install_manifest.txt $(BUILD)/installed.txt
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" != 0 ] || ldconfig

uninstall:
	@tools/uninstall.sh $(BUILD)/installed.txt

# The Python package, for machines with as new a C library as this one's, and
# the source that builds it elsewhere; in build/dist.
wheel: deps-build
	@PDL_WHEEL_BUILD=$(CURDIR)/$(BUILD)/wheel tools/pep517.py wheel $(BUILD)/dist

sdist:
	@tools/pep517.py sdist $(BUILD)/dist

# The source as an archive, and Debian packages of it in build/deb.
dist: sdist
deb: deps-deb
	@tools/deb.sh $(BUILD)

# The documents, the help of all commands and some reports as static pages.
site: deps-peers all
	@tools/site.py $(BUILD)/paradl $(BUILD)/site

clean:
	@rm -rf $(BUILD)
