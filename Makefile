# The only way in: people, scripts and CI call these.
export PATH := $(HOME)/.cargo/bin:$(PATH):/usr/sbin:/sbin
CARGO ?= cargo
CONSTEL := target/release/constel

.PHONY: demo test build lint bench clean

demo: setup-run build ## set up what is missing, build, run Iridium
	$(CONSTEL) run scenarios/iridium.yaml

test: setup-test build ## set up what is missing, build, pass every test
	$(CARGO) test --workspace --release

build: ## leaves target/release/constel
	$(CARGO) build --release --bins

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --release -- -D warnings

bench: setup-run build ## comparisons against baselines in the same run; see benches/README.md
	benches/run

.PHONY: setup-run setup-test
setup-run:
	@tools/setup run
setup-test:
	@tools/setup test

clean:
	$(CARGO) clean
