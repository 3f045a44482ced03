# The two commands for a newcomer are `make demo` and `make test`; `make help` lists the others.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
.NOTPARALLEL:

# What setup installs goes before what the machine has.
export PATH := $(CURDIR)/.venv/bin:$(CURDIR)/.tools/bin:$(PATH):$(HOME)/.cargo/bin
export VIRTUAL_ENV := $(CURDIR)/.venv
export CARGO_TARGET_DIR ?= $(CURDIR)/target
# A fixed one, so that changing environments does not build pyo3 again.
export PYO3_PYTHON := $(CURDIR)/.venv/bin/python
# Other people's files, which some tests read, if they lie beside the checkout.
ifneq ($(wildcard ../shared/data),)
export FOREBAY_TEST_DATA ?= $(abspath ../shared/data)
endif
unexport CONDA_PREFIX PYTHONPATH PYTHONHOME

# The wheel carries the program.
FOREBAY := python -m forebay
DEVELOP := maturin develop --manifest-path python/Cargo.toml
PYTHON_TESTS := python/tests
STEP := tools/step
DEMO := .demo
BENCH := .bench
# Words for benches/peers, and the environments that it installs; all if empty.
PEERS ?=
# Words for tools/sanitize and tools/soak.
SANITIZE ?=
SOAK ?=
VENVS ?=

.PHONY: help
help: ## List the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

# -- The demonstration --------------------------------------------------------------------------------------------

.PHONY: demo
demo: setup ## Build for local files, draw 400 photographs, feed a simulated accelerator, train a classifier
	@$(STEP) "build for the demonstration" $(DEVELOP) --profile demo --no-default-features
	@test -e $(DEMO)/photos || $(FOREBAY) synth $(DEMO)/photos --rows 400 --image 500x375
	@test -e $(DEMO)/held-out || $(FOREBAY) synth $(DEMO)/held-out --rows 100 --image 500x375 --seed 1
	@printf '\n-- forebay bench: would an accelerator that takes 100 ms a step have to wait?\n'
	@$(FOREBAY) bench $(DEMO)/photos --image image=rrc224 --batch-size 64 --seed 17 --step-ms 100 --epochs 2
	@printf '\n-- the same loader from Python, and a classifier in numpy: examples/numpy_classifier.py\n'
	@python examples/numpy_classifier.py $(DEMO)/photos $(DEMO)/held-out --batch-size 64
	@printf '\n-- this build is quick to make and reads local files; `make wheel` builds the whole package at full speed\n'

# -- Building -----------------------------------------------------------------------------------------------------

.PHONY: setup
setup: ## Check the tools and make .venv
	@$(STEP) "tools and virtual environment" tools/setup build

.PHONY: program
program: setup ## Build the program forebay
	@$(STEP) "build the program" cargo build --release --package forebay-cli

.PHONY: wheel
wheel: setup ## Build the Python package into .venv
	@$(STEP) "build the Python package" $(DEVELOP) --release

.PHONY: dist
dist: setup ## What users install, into dist/: wheel and program for each level of processors
	@$(STEP) "wheel and program" tools/dist

# -- Testing ------------------------------------------------------------------------------------------------------

# With little of the optimiser: it takes long, and no test measures speed. `make wheel` by itself builds at full speed.
test test-rust test-arm test-python lint: export CARGO_PROFILE_RELEASE_OPT_LEVEL ?= 1

.PHONY: test
test: setup lint deny test-rust test-python docs ## Everything that CI runs

.PHONY: lint
lint: setup ## rustfmt, clippy, rustdoc and ruff, warnings denied; the build of the demonstration
	@tools/setup lint
	@$(STEP) "rustfmt" cargo fmt --all --check
	@$(STEP) "clippy" cargo clippy --release --all-targets --workspace -- -D warnings
	@$(STEP) "the demonstration's features" cargo check --release --package forebay-python --no-default-features
	@RUSTDOCFLAGS="-D warnings" $(STEP) "rustdoc" cargo doc --release --no-deps --workspace
	@cd python && ../$(STEP) "ruff" ruff check --quiet --no-cache --config pyproject.toml . ../examples ../benches ../tools

.PHONY: deny
deny: ## Licences, bans, sources and advisories of the dependencies
	@$(STEP) "cargo-deny, to be there" tools/setup deny
	@$(STEP) "licences, bans and sources" cargo deny --log-level error check licenses bans sources
	@if cargo deny fetch db >/dev/null 2>&1; then \
		$(STEP) "advisories" cargo deny --log-level error check --disable-fetch advisories; \
	else \
		echo "== advisories                         skipped: the advisory database cannot be reached"; \
	fi

.PHONY: audit
audit: setup ## Advisories of what the wheel requires of Python, and whether the list of crates with unsafe is up to date
	@$(STEP) "pip-audit, to be there" tools/setup audit
	@$(STEP) "pip-audit" tools/audit
	@$(STEP) "crates with unsafe" tools/unsafe --check

.PHONY: msrv
msrv: setup ## The library with the oldest Rust that it promises
	@$(STEP) "cargo-hack, to be there" tools/setup hack
	@$(STEP) "oldest Rust" cargo hack check --release --package forebay --rust-version

.PHONY: features
features: setup ## The library with none of its features and with each alone
	@$(STEP) "cargo-hack, to be there" tools/setup hack
	@$(STEP) "each feature" cargo hack check --release --package forebay --each-feature

.PHONY: semver
semver: setup ## The public names of the library against those of the last release, from the first one on
	@if git describe --tags --match 'v*' --abbrev=0 >/dev/null 2>&1; then \
		tools/setup semver && $(STEP) "public names" cargo semver-checks --package forebay \
			--baseline-rev "$$(git describe --tags --match 'v*' --abbrev=0)"; \
	else \
		echo "== public names                       skipped: nothing is released"; \
	fi

.PHONY: soak
soak: wheel ## An hour under faults, kills and resumes (SOAK="--minutes 5")
	@$(STEP) "what the soak uses" tools/setup test
	@$(STEP) "build the store" cargo build --release --package fault-server
	@tools/soak --json $(BENCH)/soak.json $(SOAK)

.PHONY: test-rust
test-rust: setup ## The tests of the library and the program
	@$(STEP) "build the Rust tests" cargo test --release --workspace --no-run
	@$(STEP) -v "cargo test" bash -o pipefail -c \
		'cargo test --quiet --release --workspace --no-fail-fast 2>&1 | tee "$$CARGO_TARGET_DIR/tests.log"'
	@printf '== %s tests skipped\n' "$$(grep -c '^skipped: ' "$$CARGO_TARGET_DIR/tests.log" || true)"
	@grep '^skipped: ' "$$CARGO_TARGET_DIR/tests.log" | sort || true
	@# With other people's files at hand, no test may say that it lacks them.
	@[ -z "$${FOREBAY_TEST_DATA:-}" ] || ! grep --quiet '^skipped: .*FOREBAY_TEST_DATA' "$$CARGO_TARGET_DIR/tests.log"

.PHONY: test-long
test-long: setup ## The tests that run alone: a hundred thousand files, ten thousand mutants
	@$(STEP) "build the tests of files" cargo test --release --test files --no-run
	@$(STEP) -v "tests that run alone" cargo test --quiet --release --test files -- --ignored --test-threads 1

.PHONY: test-old-processor
test-old-processor: setup ## The tests of images on an emulated processor without AVX2; needs qemu-x86_64
	@$(STEP) "build the tests of images" cargo test --release --package forebay-image --no-run
	@CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="qemu-x86_64 -cpu Nehalem" \
		$(STEP) -v "tests of images" cargo test --quiet --release --package forebay-image --no-fail-fast

test-arm: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER := aarch64-linux-gnu-gcc
# Where Debian's cross compiler has the libraries of the processor.
test-arm: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER := qemu-aarch64 -L /usr/aarch64-linux-gnu
ARM := cargo test --quiet --release --target aarch64-unknown-linux-gnu --package forebay-image --package forebay-base \
	--package forebay-arrow --lib --tests
.PHONY: test-arm
test-arm: setup ## The tests of images, errors and conversions on an emulated aarch64
	@$(STEP) "compiler and emulator for aarch64" tools/setup arm
	@$(STEP) "build the tests for aarch64" $(ARM) --no-run
	@$(STEP) -v "tests on aarch64" $(ARM) --no-fail-fast

.PHONY: sanitize
sanitize: setup ## Miri and AddressSanitizer over unsafe code and shared data; needs a nightly Rust (SANITIZE=miri)
	@tools/sanitize $(SANITIZE)

.PHONY: test-python
test-python: wheel ## The tests of the Python package, the examples and the README
	@$(STEP) "what the Python tests use" tools/setup test
	@$(STEP) -v "servers to test against" tools/setup servers
	@cd python && ../$(STEP) "types of the Python package" python -m mypy
	@# Without restarts, after which pytest-xdist can wait without end.
	@$(STEP) -v "pytest" python -m pytest $(PYTHON_TESTS) --numprocesses 3 --max-worker-restart 0 --dist loadfile \
		--durations 20

# -- Documentation ------------------------------------------------------------------------------------------------

.PHONY: docs
docs: setup ## The site with guide, recipes and API reference, into site/
	@$(STEP) "MkDocs" tools/setup docs
	@$(STEP) "site" tools/site

# -- Measuring ----------------------------------------------------------------------------------------------------

.PHONY: bench-peers
bench-peers: wheel ## forebay beside what people use instead (PEERS="w1 --only forebay,by_hand")
	@benches/peers/setup $(BENCH)/venvs $(VENVS)
	@python benches/peers --data $(BENCH) $(PEERS)

# -- Cleaning -----------------------------------------------------------------------------------------------------

.PHONY: clean
clean: ## Remove what was built, installed and drawn
	rm -rf target .venv .tools .demo .bench site
