# Everything here works on a machine that has nothing but make, git and a package manager: see scripts/setup.sh.
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test test-all test-count search lint check shell docs image clean setup cluster-servers cluster-test

# ARGS goes to the program: make demo ARGS="--jobs 1", make test ARGS="-k schedule". OUT is where a demo's run goes.
# SAMPLE is a run of the lab for the sample report of make docs, in place of a new one of the demo.
# SLOW is what make test runs of the slow tests: none, all, or the second of four parts: 2/4.
ARGS ?=
SLOW ?= none
OUT ?=
BIN := .venv/bin
SCRIPTS := scripts/*.sh .ci/run deploy/image deploy/entrypoint
STRAY = $(filter-out $(foreach kind,added changed fixed removed,changes/+%.$(kind).md),$(wildcard changes/*))

unexport VIRTUAL_ENV PYTHONPATH PYTHONHOME
# Without bytecode each of the hundreds of commands that tests start compiles all it imports.
unexport PYTHONDONTWRITEBYTECODE

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' Makefile

demo: ## install what is missing, then run the first trial: local, iSCSI and NVMe/TCP in the lab
	@sh scripts/setup.sh demo
	@$(BIN)/fairlane run demo $(if $(OUT),--out "$(OUT)") $(ARGS)

test: ## install what is missing, then all linters and all tests but slow ones
	@sh scripts/setup.sh test
ifeq ($(strip $(ARGS)),)
	@$(BIN)/python scripts/tests.py --slow $(SLOW)
else
	@$(MAKE) --no-print-directory check ARGS=
	@$(BIN)/pytest $(ARGS)
endif

test-all: ## the same with slow tests
	@$(MAKE) --no-print-directory test SLOW=all

test-count: ## install what is missing, then count the tests of each tier
	@sh scripts/setup.sh test
	@$(BIN)/python scripts/tests.py --count

search: ## install what is missing, then look for examples that break a property: new ones each time, 20 times as many
	@sh scripts/setup.sh test
	@$(BIN)/pytest -m "hypothesis and not lab and not cluster" --hypothesis-profile search $(ARGS)

lint: ## install what is missing, then the linters alone
	@sh scripts/setup.sh test
	@$(MAKE) --no-print-directory check

check: shell
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/_make/tables.py --check
	$(if $(STRAY),$(error $(STRAY): name it changes/+NAME.KIND.md; a KIND is added, changed, fixed or removed))
	@draft=$$($(BIN)/towncrier build --draft --version 0.0 2>&1) || { echo "$$draft"; exit 1; }
	$(BIN)/python scripts/words.py
	$(BIN)/codespell

shell:
	shellcheck $(SCRIPTS)
	shellcheck -s sh -e SC1091 src/fairlane/platforms/lab/virtual/guest/*
	shellcheck -s sh -S warning -e SC1091,SC2034 src/fairlane/machines/guest/*.sh src/fairlane/capture/guest/*.sh src/fairlane/workloads/guest/*.sh src/fairlane/living/guest/*.sh
	shellcheck -s sh -S warning -e SC1091,SC2034 $(addprefix src/fairlane/platforms/lab/wall/guest/,*init *.sh)
	shellcheck -s sh -S warning -e SC1091 $(addprefix testkit/strangers/guest/,early init maintenance *.sh)

cluster-servers: ## build kube-apiserver and etcd for the cluster tests: once, some ten minutes
	@sh scripts/cluster-servers.sh

cluster-test: ## install what is missing, build these servers, then the tests against a real cluster
	@sh scripts/setup.sh test
	@sh scripts/cluster-servers.sh
	@$(BIN)/fairlane lab build --wall
	@$(BIN)/pytest -m cluster $(ARGS)

docs: ## install what is missing, then build the documentation with its sample report, into site/
	@sh scripts/setup.sh test
	@$(BIN)/python docs/_make/sample.py
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo site/index.html

image: ## build the container image from a Debian root, as root, with mmdebstrap and buildah, and run it once
	@sh deploy/image

setup: ## only install what is missing
	@sh scripts/setup.sh test

clean: ## remove what was made here, except runs; the lab's images: fairlane lab clean
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .grimp_cache dist site
	find . -path ./runs -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
