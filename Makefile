# SPDX-License-Identifier: Apache-2.0
# A thin front of Meson: `make help` says what there is. Logic lives in tools/ and in the programs.
B := build
.DEFAULT_GOAL := build
.PHONY: build all setup run test test-all coverage demo image bench lint format conformance e2b interop originals jobs engines container container-test deb deb-test release release-images release-test packages wheel npm packages-test sbom api ui hostile inside kill-points load race sessions soak fuzz-smoke verify install clean help

build: $(B)/build.ninja ## build/caisson
	@ninja -C $(B) caisson

all: $(B)/build.ninja ## what the tests need, too
	@ninja -C $(B)

$(B)/build.ninja:
	@command -v meson >/dev/null && command -v ninja >/dev/null || { echo "meson or ninja is missing: make setup" >&2; exit 1; }
	@meson setup $(B)

setup: ## install the packages of tools/packages.txt (Debian, asks sudo)
	@tools/setup

run: ## set up, build, make the default image, serve on 127.0.0.1:8181
	@tools/setup run && $(MAKE) --no-print-directory build
	@$(B)/caisson image build science --if-missing && exec $(B)/caisson serve $(ARGS)

test: ## set up, build, unit tests and a core of the integration tests, in at most ten minutes (ARGS: tests/run --help)
	@tools/setup && $(MAKE) --no-print-directory all
	@tests/run --core $(ARGS)

test-all: ## the same with all integration tests in every mode, for half an hour (ARGS: tests/run --help)
	@tools/setup && $(MAKE) --no-print-directory all
	@tests/run $(ARGS)

coverage: ## lines and branches that tests reach, by room, in half an hour (ARGS: files, tools/coverage --help)
	@tools/coverage $(ARGS)

demo: ## analyse a real CSV through MCP; results in ./caisson-demo
	@tools/setup && $(MAKE) --no-print-directory build
	@$(B)/caisson image build science --if-missing && examples/demo/run

image: build ## build the image `science` (again when its definition changed)
	@$(B)/caisson image build science --if-changed

container: build ## an image of the server for Docker and Podman, without a daemon (ARGS: packaging/container/make-archive --help)
	@packaging/container/make-archive $(ARGS)

bench: all ## compare with other sandboxes on this machine
	@bench/run $(ARGS)

lint: all ## formatting, layers, analyzers
	@tools/lint $(ARGS)

format: ## bring the C files to the layout of the project
	@tools/format

conformance: all ## the official MCP conformance suite
	@tests/run conformance $(ARGS)

e2b: build ## E2B's SDKs against the face e2b
	@tests/run e2b $(ARGS)

interop: build ## real clients over every transport
	@tests/run interop $(ARGS)

jobs: build ## forty-five jobs as a model does them, judged by what it reads
	@tests/run jobs $(ARGS)

engines: build ## the same calls on Docker and Podman, with daemons of our own (ARGS: tests/run engines --help)
	@tests/run engines $(ARGS)

container-test: build ## the container image of the server in a Docker daemon of our own (ARGS: tests/run container --help)
	@tests/run container $(ARGS)

deb: build ## a Debian package, for the release that it is built on (ARGS: packaging/deb/build --help)
	@packaging/deb/build $(ARGS)

deb-test: build ## the Debian package: files, lintian, equal builds, from the installation to the purge
	@tests/run package $(ARGS)

sbom: build ## bills of materials and licences of the program into build/sbom (ARGS: packaging/sbom/sbom --help)
	@packaging/sbom/sbom $(or $(ARGS),program --out $(B)/sbom)

release: ## a portable binary, linked with glibc 2.31 or newer alone (ARGS: packaging/release/build --help)
	@packaging/release/build $(ARGS)

release-images: build ## science and base as OCI layouts for a registry (ARGS: packaging/release/images --help)
	@packaging/release/images $(ARGS)

release-test: ## the portable binary: what it needs, equal builds, Debian 11, 12 and 13 (ARGS: tests/run release --help)
	@tests/run release $(ARGS)

packages: ## wheels, npm, Debian and RPM packages of the portable binary, and what directories take, into build/release (ARGS: packaging/packages --help)
	@packaging/packages $(ARGS)

wheel npm: packages ## the same

packages-test: build ## the wheels and npm packages: pip, uvx, npx, and both bridges (ARGS: tests/run packages --help)
	@tests/run packages $(ARGS)

originals: build ## what clients of both replaced servers do (ARGS: tests/run originals --help)
	@tests/run originals $(ARGS)

api: build ## the REST description against the server
	@tests/run api $(ARGS)

ui: build ## the page in Chromium, and the view of results in a host of MCP Apps (ARGS: tests/run ui --help)
	@tests/run ui $(ARGS)

hostile: all ## attacks from inside sandboxes and by clients (ARGS: tests/run hostile --help)
	@tests/run hostile $(ARGS)

inside: build ## the tests of Python and its packages, run in sandboxes (ARGS: --quick, tests/run inside --help)
	@tests/run inside $(ARGS)

kill-points: ## SIGKILL at every step of making, running and ending a sandbox (ARGS: tests/run kill --help)
	@tests/run kill $(ARGS)

load: all ## good and hostile clients together for ten minutes (ARGS: tests/run load --help)
	@tests/run load $(ARGS)

sessions: all ## libraries in living sessions, and each kind of end (ARGS: tests/run sessions --help)
	@tests/run sessions $(ARGS)

race: all ## random clients against one server, also leaving and deleting in the middle; with build-asan/ if it is there (ARGS: tests/run race --help)
	@tests/run race $(ARGS)

soak: all ## make and end 100,000 sandboxes; nothing may be left (ARGS: tests/run soak --help)
	@tests/run soak $(ARGS)

fuzz-smoke: ## every fuzz target for half a minute (ARGS: tools/fuzz-smoke --help)
	@tools/fuzz-smoke $(ARGS)

verify: ## everything of every suite, in slices of at most 40 minutes; writes docs/verified.md (ARGS: tools/verify --help)
	@tools/verify $(ARGS)

install: build ## install under the prefix of the build (DESTDIR is honoured)
	@meson install -C $(B)

clean: ## remove what was built (images stay)
	@rm -rf $(B) build-asan build-cov build-fuzz build-testing

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
