# The only way in: people, scripts and CI call these.
export PATH := $(HOME)/.cargo/bin:$(PATH):/usr/sbin:/sbin
CARGO ?= cargo
CONSTEL := target/release/constel

# Where the pinned toolchain is not to be had, one that will do.
TOOLCHAIN := $(shell tools/toolchain)
ifneq ($(TOOLCHAIN),)
export RUSTUP_TOOLCHAIN := $(TOOLCHAIN)
endif

.PHONY: demo containers virtual test test-long test-python build-ci test-kernels web web-pictures web-test build wheel dist dist-aarch64 docs leotp-static init-static lint format metrics style documents clippy rustdoc licences bench clean

demo: setup-run build ## set up what is missing, build, run Iridium
	$(CONSTEL) run scenarios/iridium.yaml

containers: setup-containers build ## the same sky made of container images, and a video that plays across it
	scenarios/images/make bird nginx-video ffmpeg-client
	$(CONSTEL) run scenarios/containers.yaml

test: setup-test setup-kernels setup-web build-ci ## set up what is missing, build, pass every test
	@tools/parts rust+computing,web+fuzz+doc+kernels python

test-long: setup-test setup-kernels setup-web build-ci ## the same with long studies in full, new cases of property tests, all kernels and the page with labs: some hours
	CONSTEL_LONG=1 tools/parts rust+computing properties-long python web-long fuzz-long kernels-long virtual-long

test-python: setup-test build-ci ## the Python package: types, stubs, frames, labs
	tools/parts python

test-kernels: setup-kernels build-ci ## the link drivers edt and netem, and labs on them, on Debian's kernels in QEMU
	tools/kernels/test

virtual: ## builds the kernel of virtual time (User Mode Linux): some five minutes
	tools/virtual/kernel

web: setup-web ## builds the page of the web view into crates/web/page, which is kept in the repository
	cd web && npm ci --no-audit --no-fund --ignore-scripts && npx tsc && node build.mjs

web-pictures: setup-web build ## the pictures of docs/reference/web.md, with Chromium; root
	cd web && node shots.mjs globe sky why terminal charts replay

web-test: setup-web build-ci ## is the page in the repository that of its sources; looks at it with Chromium
	CONSTEL=$(CURDIR)/target/ci/constel web/test

build: ## leaves target/release/constel
	$(CARGO) build --release --bins

build-ci: ## leaves target/ci/constel, quickly built, and the tests that run it
	$(CARGO) build --locked --profile ci --workspace --lib --bins --tests

wheel: setup-packages build ## leaves dist/constel-*.whl: the Python module, and the program inside; and constel_kernel-*.whl, if `make virtual` was run
	tools/python/wheel
	[ ! -e target/virtual/linux ] || tools/python/kernel-wheel

dist: setup-packages build ## leaves dist/constel_*.deb and dist/constel-*.tar.gz: program, completion, man pages, scenarios; and constel-kernel_*.deb, if `make virtual` was run
	tools/dist

dist-aarch64: setup-packages build ## the same and the wheel for 64-bit Arm, built on this machine
	tools/cross
	tools/dist aarch64
	tools/python/wheel aarch64

docs: setup-packages ## builds the documentation's site into site/
	tools/site

leotp-static: ## one small file without libraries: target/x86_64-unknown-linux-musl/small/leotp
	rustup target add x86_64-unknown-linux-musl
	CC_x86_64_unknown_linux_musl=$${CC:-gcc} $(CARGO) build --profile small -p leotp --bin leotp --target x86_64-unknown-linux-musl

init-static: ## one small file that runs in every image: target/x86_64-unknown-linux-musl/small/constel-init
	rustup target add x86_64-unknown-linux-musl
	$(CARGO) build --profile small -p constel-init --target x86_64-unknown-linux-musl

lint: format metrics style documents licences clippy rustdoc ## what .ci/run checks before the tests; changes nothing

format:
	$(CARGO) fmt --all --check

metrics: ## circles of files, long functions, reasons of crates, pure modules, duplicated bodies and unused dependencies stay below their bounds
	tools/metrics --check

style: ## what people read: long sentences, first words, and words that the glossary excludes stay within bounds
	tools/style --self-test
	tools/style --check

documents: ## links lead somewhere, tables and numbers are those of their raw data
	tools/documents --self-test
	tools/documents

licences: ## of ours, of what we depend on, and of the BPF programs
	tools/licences/check

clippy: ## warnings are errors
	$(CARGO) clippy --locked --workspace --all-targets --profile ci -- -D warnings

rustdoc: ## broken links and missing documentation are errors; pages are left in target/doc
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps --profile ci

bench: setup-run build ## comparisons against baselines in the same run; see benches/README.md
	benches/run

.PHONY: setup setup-run setup-containers setup-test setup-packages setup-kernels setup-web
setup: setup-test setup-kernels ## everything that any of these needs
setup-run:
	@tools/setup run
setup-containers:
	@tools/setup containers
setup-test:
	@tools/setup test
setup-packages:
	@tools/setup packages
setup-kernels:
	@tools/setup kernels
setup-web:
	@tools/setup web

clean:
	$(CARGO) clean
