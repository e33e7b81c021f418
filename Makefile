# The front door. 'make demo' and 'make check' need nothing but a Debian or
# Ubuntu machine: they install the packages they miss, build in build/ and run.
SHELL := /bin/sh
BUILD := build
CMAKE := cmake -G Ninja -S .
NINJA := ninja
PREFIX ?= /usr/local

.PHONY: all demo check check-long check-peers bench asan fuzz format paper \
	golden-update install clean deps-build deps-check deps-peers

all: deps-build $(BUILD)/build.ninja
	@$(NINJA) -C $(BUILD) paradl paradl_shared generated

deps-build deps-check deps-peers:
	@tools/deps.sh $(@:deps-%=%)

$(BUILD)/build.ninja:
	@$(CMAKE) -B $(BUILD) -DCMAKE_C_COMPILER=gcc >/dev/null

demo: all
	@examples/demo.sh $(BUILD)/paradl

# gcc with everything, clang with -Werror, AddressSanitizer and UBSan over the
# unit tests; the last line is ctest's.
check: deps-check $(BUILD)/build.ninja
	@$(NINJA) -C $(BUILD)
	@$(CMAKE) -B $(BUILD)/clang -DCMAKE_C_COMPILER=clang >/dev/null
	@$(NINJA) -C $(BUILD)/clang
	@$(CMAKE) -B $(BUILD)/asan -DCMAKE_C_COMPILER=gcc -DCMAKE_BUILD_TYPE=Debug \
	    -DCMAKE_C_FLAGS=-O1 -DPDL_SANITIZE=address,undefined >/dev/null
	@$(NINJA) -C $(BUILD)/asan
	@ctest --test-dir $(BUILD)/asan -L unit -j2 --output-on-failure
	@ctest --test-dir $(BUILD) -j2 --output-on-failure

asan: deps-check
	@$(CMAKE) -B $(BUILD)/asan -DCMAKE_C_COMPILER=gcc -DCMAKE_BUILD_TYPE=Debug \
	    -DCMAKE_C_FLAGS=-O1 -DPDL_SANITIZE=address,undefined >/dev/null
	@$(NINJA) -C $(BUILD)/asan
	@ctest --test-dir $(BUILD)/asan -L unit -j2 --output-on-failure

check-long: check
	@PDL_LONG=1 ctest --test-dir $(BUILD) -L unit -j2 --output-on-failure

check-peers: deps-peers all
	@tests/peers/run.sh $(BUILD)/paradl

paper: deps-check $(BUILD)/build.ninja
	@$(NINJA) -C $(BUILD)
	@ctest --test-dir $(BUILD) -R '^paper/' --output-on-failure

# FUZZ_S seconds for each parser, starting from the stored corpus.
FUZZ_S ?= 180
fuzz: deps-check
	@$(CMAKE) -B $(BUILD)/fuzz -DCMAKE_C_COMPILER=clang -DPDL_FUZZ=ON \
	    -DPDL_SANITIZE=address,undefined >/dev/null
	@$(NINJA) -C $(BUILD)/fuzz
	@tools/fuzz.sh $(BUILD)/fuzz $(FUZZ_S) $(FUZZ)

bench: all
	@bench/run.sh $(BUILD)/paradl

format:
	@find src include tests examples -name '*.[ch]' | xargs clang-format -i

golden-update: all
	@tests/cli/run.sh $(BUILD)/paradl --update

install: all
	@cmake --install $(BUILD) --prefix $(PREFIX)

clean:
	@rm -rf $(BUILD)
