# From a fresh checkout: `make demo` trains, `make test` tests. Every step leaves a stamp under .venv, or is
# Bazel's, so that a second call repeats nothing that is finished.

# The first interpreter of a supported version.
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11 python3.10; do \
  $$python -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null \
  && echo $$python && break; done)
# Arguments of configure.py, e.g. make test CONFIGURE="--mpi=/usr/bin/mpicc"
CONFIGURE ?=
# Arguments of the demo, e.g. make demo DEMO="--epochs=4"
DEMO ?=
# Arguments of the benchmark, e.g. make bench BENCH="--max_exponent=20"
BENCH ?=
# Further flags of bazel test.
TEST_FLAGS ?=
BAZEL ?= bazel

VENV := .venv
STAMPS := $(VENV)/stamps

.PHONY: help setup build test test-full test-hosts demo bench wheel lint format clean
.DELETE_ON_ERROR:

help:
	@echo "make demo    set up, build and train the digits model on 4 ranks, once per reduction"
	@echo "make test    set up, build and run the tests"
	@echo "make test-full    make test and the long forms: fuzz and stress runs, tensors of 9 GiB"
	@echo "make test-hosts   set up, build and start ranks on two hosts made of namespaces, as root"
	@echo "make setup   virtual environment in .venv, pinned requirements, Bazel, configure.py"
	@echo "make build   setup and the native library, put in place for .venv/bin/python"
	@echo "make bench   setup, build and time allreduces against MPI's own, then training steps"
	@echo "make wheel   setup and a wheel in dist/"
	@echo "make lint    ruff and clang-format; make format repairs what they can"
	@echo "make clean   remove what was built, keep .venv"

setup: .bazelrc.user $(STAMPS)/editable

$(STAMPS)/system: tools/install_system.sh
	tools/install_system.sh "$(PYTHON)" "$(BAZEL)"
	"$(PYTHON)" -m venv $(VENV)
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/requirements: requirements.txt tools/install_requirements.sh $(STAMPS)/system
	tools/install_requirements.sh $(VENV)/bin/python
	@touch $@

$(STAMPS)/editable: tools/install_editable.py $(STAMPS)/requirements
	$(VENV)/bin/python tools/install_editable.py
	@touch $@

.bazelrc.user: configure.py $(STAMPS)/requirements
	$(VENV)/bin/python configure.py $(CONFIGURE)

build: setup
	$(BAZEL) build //tf_adasum
	$(VENV)/bin/python tools/install_native.py "$$($(BAZEL) info bazel-bin 2>/dev/null)"

test: build
	$(BAZEL) test $(TEST_FLAGS) //...

# No filter in place of .bazelrc's: also what is tagged full or large_tensor.
test-full: build
	$(BAZEL) test --test_tag_filters= $(TEST_FLAGS) //...

test-hosts: build
	$(BAZEL) test $(TEST_FLAGS) //tests/hosts:hosts_test

demo: build
	$(VENV)/bin/python -m models.digits.demo $(DEMO)

# One after the other: timings don't share a machine. Figures and plots go where docs/performance.md shows them.
RESULTS := docs/performance
bench: build
	for ranks in 2 4; do \
	  $(VENV)/bin/adasumrun -np $$ranks $(VENV)/bin/python -m benchmarks.allreduce \
	    --json=$(RESULTS)/allreduce$$ranks.json --plot=$(RESULTS)/allreduce$$ranks.png $(BENCH) || exit 1; \
	done
	for ranks in 2 4; do $(VENV)/bin/adasumrun -np $$ranks $(VENV)/bin/python -m benchmarks.passes || exit 1; done
	$(VENV)/bin/adasumrun -np 2 $(VENV)/bin/python -m benchmarks.step --json=$(RESULTS)/step.json
	$(VENV)/bin/python -m benchmarks.memory --ranks=2 --json=$(RESULTS)/memory.json

wheel: setup
	$(BAZEL) build //:wheel
	@mkdir -p dist
	cp -f "$$(ls -t "$$($(BAZEL) info bazel-bin 2>/dev/null)"/*.whl | head -n 1)" dist/
	@chmod u+w dist/*.whl && ls -t dist/*.whl | head -n 1

lint: $(STAMPS)/requirements
	$(VENV)/bin/python tools/lint.py

format: $(STAMPS)/requirements
	$(VENV)/bin/python tools/lint.py --fix

clean:
	$(BAZEL) clean
	rm -rf dist tf_adasum/_native.so tf_adasum/_build_info.py
