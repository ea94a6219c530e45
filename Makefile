# The only way in: people, scripts and CI call these.
export PATH := $(HOME)/.cargo/bin:$(PATH):/usr/sbin:/sbin
CARGO ?= cargo
CONSTEL := target/release/constel

.PHONY: demo test test-kernels build leotp-static lint bench clean

demo: setup-run build ## set up what is missing, build, run Iridium
	$(CONSTEL) run scenarios/iridium.yaml

test: setup-test setup-kernels build ## set up what is missing, build, pass every test
	$(CARGO) test --workspace --release
	tools/kernels/test --smoke

test-kernels: setup-kernels ## the link drivers edt and netem, and labs on them, on Debian's kernels in QEMU
	tools/kernels/test

build: ## leaves target/release/constel
	$(CARGO) build --release --bins

leotp-static: ## one small file without libraries: target/x86_64-unknown-linux-musl/small/leotp
	rustup target add x86_64-unknown-linux-musl
	CC_x86_64_unknown_linux_musl=$${CC:-gcc} $(CARGO) build --profile small -p leotp --bin leotp --target x86_64-unknown-linux-musl

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --release -- -D warnings

bench: setup-run build ## comparisons against baselines in the same run; see benches/README.md
	benches/run

.PHONY: setup-run setup-test setup-kernels
setup-run:
	@tools/setup run
setup-test:
	@tools/setup test
setup-kernels:
	@tools/setup kernels

clean:
	$(CARGO) clean
