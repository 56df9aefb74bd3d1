# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
#   make demo    build, replay the recording that ships with the project, write report.html
#   make kernel HZ=250   the source of the default kernel, an image of it, and Torpor with that
#   make test    everything CI runs
#   make check SINCE=main    lints, and the tests that a change since that revision needs
#   make test-long    tests marked slow; damages every recording ten thousand times, and replays
#                      some (two hours); hosts the newest kernels
#   make attack  an hour of damaged inputs, hostile governors, signals, full disks, races
#   make fuzz TARGET=perfetto MINUTES=5   a reader, from seeds that are made first; see fuzz/
#   make bench   the benchmarks, as one table of aims; all they print is in build/bench.log
#   make aarch64 the wheel for aarch64, tried in a bare Debian, and unit tests; emulated elsewhere
#   make docs    the documentation as a site, in build/site
#   make guest-test        of these, the governors in stock kernels under QEMU
#   make guest-test-full   all governors, workloads and kernels, and a thousand rounds of loading
#                          and unloading (hours)
#   make guest-test-sanitized   the governors in a kernel with lockdep, KASAN and UBSAN, built first
#   make guest-test-ioboost     IO boosts in a kernel with an energy model, built first
#   make clean   remove what the above made
#
# Both set up all they need in build/ and target/; only Rust, a C compiler and Python are yours.

VENV := build/venv
BIN := $(VENV)/bin
DEMO := $(firstword $(wildcard demo/*.perf.data))
# A kernel's own governor, recorded: what it decided, a replay decides again.
GUEST := tests/data/guest/amd64-6.12-menu-mix/trace.dat.gz
GOVERNORS := -g menu -g teo -g shallowest -g deepest -g oracle
export PATH := $(CURDIR)/$(BIN):$(PATH):$(HOME)/.cargo/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo kernel test check test-long attack fuzz aarch64 docs docs-links guest-test guest-test-full guest-test-sanitized guest-test-ioboost bench tools install install-test clean
.DEFAULT_GOAL := demo

demo: install
	@$(BIN)/torpor replay $(DEMO) --platform pixel6 $(GOVERNORS) --report report.html
	@echo
	@$(BIN)/torpor replay $(DEMO) --platform i5-10600k $(GOVERNORS)
	@echo
	@$(BIN)/torpor fidelity $(GUEST) >build/fidelity.txt
	@sed -n 1,6p build/fidelity.txt
	@echo
	@echo "The first table as a page: $(CURDIR)/report.html"
	@echo "Torpor is $(CURDIR)/$(BIN)/torpor. Next:"
	@echo "  $(BIN)/torpor replay RECORDING -p pixel6   a recording of yours; -p may go if torpor record made it"
	@echo "  $(BIN)/torpor platform list                the machines that -p names"
	@echo "  $(BIN)/torpor replay $(DEMO) -p pixel6 -g menu -g ./my.c   a governor of yours, as the kernel has it"
	@echo "  $(BIN)/torpor simulate frames -p pixel6    a machine that you do not have"
	@echo "  $(BIN)/torpor doctor                       what this machine lacks"

# One tick rate: a compiler makes the others when they are asked for.
kernel: build/deps
	@python3 scripts/kernel_images.py --hz $(or $(HZ),250)
	@scripts/install.sh $(VENV)

test: install-test
	@scripts/install-test-packages.sh
	@$(BIN)/python scripts/run_tests.py

check: install-test
	@$(BIN)/python scripts/run_tests.py --since $(or $(SINCE),main)

test-long: install-test
	@$(BIN)/python -m pytest -n auto -m slow tests
	@cargo test --release -p torpor-trace --test damage -- --ignored --nocapture
	@cargo test --release -p torpor-engine --lib -- --ignored
	@cargo test --release -p torpor-check --test all -- --ignored
	@TORPOR_ATTACKS=30000 cargo test --release -p torpor-sim --test all -- --include-ignored aarch64 attacks damaged hosted
	@TORPOR_MIRROR_CALLS=10000000 cargo test --release -p torpor-governor --test all -- mirrors --include-ignored

attack: install-test
	@PYTHONPATH=tests $(BIN)/python -m attack --minutes $(or $(MINUTES),60)

# A stable compiler takes the sanitizer's flags by RUSTC_BOOTSTRAP.
fuzz: install
	@cargo fuzz --version >/dev/null 2>&1 || cargo install --locked cargo-fuzz
	@fuzz/seeds.sh
	@cd fuzz && RUSTC_BOOTSTRAP=1 cargo fuzz run -O -a $(or $(TARGET),perfetto) -- \
		-max_len=65536 -max_total_time=$$(($(or $(MINUTES),5) * 60))

# Needs root for the chroot, and what scripts/install-test-packages.sh installs.
aarch64: install
	@scripts/aarch64.sh
	@scripts/wheel.sh aarch64
	@TORPOR=$(BIN)/torpor scripts/stranger.sh build/dist/torpor-*aarch64.whl trixie

# A warning is an error: a link that leads nowhere, a page that no chapter names.
docs: build/deps-docs install
	@$(BIN)/python -m sphinx -q -W --keep-going -b html -c docs -d build/site-cache . build/site
	@echo "the site: $(CURDIR)/build/site/index.html"

# Links to elsewhere, which takes a network.
docs-links: build/deps-docs install
	@$(BIN)/python -m sphinx -q -b linkcheck -c docs -d build/site-cache . build/site-links

guest-test: install-test
	@$(BIN)/python -m pytest tests/guest

guest-test-full: install-test
	@TORPOR_GUEST_ROUNDS=1000 TORPOR_GUEST_FULL=1 $(BIN)/python -m pytest tests/guest

guest-test-sanitized: install-test
	@TORPOR_GUEST_SANITIZED=1 $(BIN)/python -m pytest tests/guest/test_sanitized.py

guest-test-ioboost: install-test
	@TORPOR_GUEST_IOBOOST=1 $(BIN)/python -m pytest tests/guest/test_ioboost.py

bench: build/deps-bench install
	@$(BIN)/python benches/table.py

tools:
	@scripts/check-tools.sh >/dev/null

# What the build needs, and what Torpor needs, once for each state of pyproject.toml.
build/deps: pyproject.toml lab/pyproject.toml scripts/install-deps.sh | tools
	@scripts/install-deps.sh $(VENV)
	@touch $@

build/deps-test: build/deps
	@scripts/install-deps.sh $(VENV) test
	@touch $@

build/deps-docs: build/deps
	@scripts/install-deps.sh $(VENV) docs
	@touch $@

build/deps-bench: build/deps
	@scripts/install-deps.sh $(VENV) bench
	@touch $@

# Always: cargo knows best what has changed, and is quick where nothing has.
install: build/deps
	@scripts/install.sh $(VENV)

install-test: build/deps-test build/kernel-images
	@scripts/install.sh $(VENV)

# Where the kernel's source cannot be had, the tests that simulate fail, and say so.
build/kernel-images: $(shell find khost governors kernel/ioboost crates/torpor-sim/src/kernel -type f)
	@source=$$(tests/kernel_sources.sh 6.12) && python3 scripts/kernel_images.py --source "$$source" ||\
		echo "no images of the default kernel: see above" >&2
	@touch $@

clean:
	rm -rf build target report.html images/*.so images/manifest.json
