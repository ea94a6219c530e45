# The only way in: people, scripts and CI call these.
export PATH := $(HOME)/.cargo/bin:$(PATH):/usr/sbin:/sbin
CARGO ?= cargo
CONSTEL := target/release/constel

# Where the pinned toolchain is not to be had, one that will do.
TOOLCHAIN := $(shell tools/toolchain)
ifneq ($(TOOLCHAIN),)
export RUSTUP_TOOLCHAIN := $(TOOLCHAIN)
endif

.PHONY: demo containers test test-kernels build leotp-static lint format documents clippy rustdoc licences bench clean

demo: setup-run build ## set up what is missing, build, run Iridium
	$(CONSTEL) run scenarios/iridium.yaml

containers: setup-containers build ## the same sky made of container images, and a video that plays across it
	$(CONSTEL) run scenarios/containers.yaml

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

lint: format documents licences clippy rustdoc ## what .ci/run checks before the tests; changes nothing

format:
	$(CARGO) fmt --all --check

documents: ## links lead somewhere, tables are those of their raw data
	tools/documents

licences: ## of ours, of what we depend on, and of the BPF programs
	tools/licences/check

clippy: ## warnings are errors
	$(CARGO) clippy --locked --workspace --all-targets --release -- -D warnings

rustdoc: ## broken links and missing documentation are errors; pages are left in target/doc
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps --release

bench: setup-run build ## comparisons against baselines in the same run; see benches/README.md
	benches/run

.PHONY: setup setup-run setup-containers setup-test setup-kernels
setup: setup-test setup-kernels ## everything that any of these needs
setup-run:
	@tools/setup run
setup-containers:
	@tools/setup containers
setup-test:
	@tools/setup test
setup-kernels:
	@tools/setup kernels

clean:
	$(CARGO) clean
