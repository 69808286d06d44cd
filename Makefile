# From a fresh checkout: `make demo` trains, `make test` tests. Every step leaves a stamp under .venv, or is
# Bazel's, so that a second call repeats nothing that is finished.

# Arguments of the demo, e.g. make demo DEMO="--seed=1"; make demo DEMO=--help lists them
DEMO ?=
# Arguments of the benchmark, e.g. make bench BENCH="--max_exponent=20"
BENCH ?=
# Further flags of bazel test.
TEST_FLAGS ?=
# The TensorFlow of make test-tensorflow, e.g. VERSION=2.16.2
VERSION ?=
# How long make fuzz looks.
FUZZ_SECONDS ?= 600
BAZEL ?= bazel

.DEFAULT_GOAL := help
VENV := .venv
STAMPS := $(VENV)/stamps

# The interpreter that .venv is made of: the one given, and .venv is made anew if it is another one than the last
# time; else that of the last time, else the first of a supported version.
LAST_PYTHON := $(shell cat $(STAMPS)/system 2>/dev/null)
ifeq ($(origin PYTHON),undefined)
  PYTHON := $(or $(LAST_PYTHON),$(shell for python in python3 python3.13 python3.12 python3.11 python3.10; do \
    $$python -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null \
    && echo $$python && break; done))
else ifneq ($(strip $(PYTHON)),$(LAST_PYTHON))
  $(STAMPS)/system: FORCE
  CLEAR := --clear
endif

# Arguments of configure.py, e.g. make test CONFIGURE="--mpi=/usr/bin/mpicc": those given, and it runs again if
# they are others than the last time, by hand or by make; else those of the last time.
LAST_CONFIGURE := $(shell sed -n 's/^. Arguments: *//p' .bazelrc.user 2>/dev/null)
ifeq ($(origin CONFIGURE),undefined)
  CONFIGURE := $(LAST_CONFIGURE)
else ifneq ($(strip $(shell echo $(CONFIGURE))),$(strip $(LAST_CONFIGURE)))
  .bazelrc.user: FORCE
endif

.PHONY: FORCE help setup build test test-full test-hosts test-slurm test-tensorflow sanitize fuzz keras-table demo experiments bench wheel lint format clean
.DELETE_ON_ERROR:

help:
	@echo "make demo    set up, build and train the digits model as 1 and as 32 workers, once per reduction"
	@echo "make test    set up, build and run the tests"
	@echo "make test-full    make test and what it leaves out: long cases, fuzz and stress runs, tensors of 9 GiB"
	@echo "make test-hosts   set up, build and start ranks on two hosts made of namespaces, as root"
	@echo "make test-slurm   set up, build and train in jobs of a Slurm of one node, as root; installs slurm-wlm and munge"
	@echo "make test-tensorflow VERSION=2.16.2    build with that TensorFlow, in an environment of its own, and test"
	@echo "make sanitize     set up, build and run the C++ tests under AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer"
	@echo "make fuzz         set up and let libFuzzer read as a rank whose peers send anything; installs clang-14"
	@echo "make keras-table  set up, build, run every Keras feature on all replicas of its table and write docs/keras.md"
	@echo "make setup   virtual environment in .venv, pinned requirements, Bazel, configure.py"
	@echo "make build   setup and the native library, put in place for .venv/bin/python"
	@echo "make experiments  set up, build and make the runs, tables and plots of docs/results.md that are missing"
	@echo "make bench   setup, build and time allreduces against MPI's own, then training steps"
	@echo "make wheel   setup and a wheel in dist/"
	@echo "make lint    ruff and clang-format; make format repairs what they can"
	@echo "make clean   remove what was built, keep .venv"

setup: .bazelrc.user $(STAMPS)/editable

$(STAMPS)/system: tools/install_system.sh
	tools/install_system.sh "$(strip $(PYTHON))" "$(BAZEL)"
	"$(strip $(PYTHON))" -m venv $(CLEAR) $(VENV)
	@mkdir -p $(STAMPS) && echo "$(strip $(PYTHON))" >$@

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

sanitize: build
	tools/sanitize.sh "$(BAZEL)" $(TEST_FLAGS)

fuzz: setup
	tools/fuzz.sh "$(BAZEL)" "$(FUZZ_SECONDS)"

test-slurm: build
	tools/install_slurm.sh
	$(BAZEL) test $(TEST_FLAGS) //tests/slurm:slurm_test

test-hosts: build
	$(BAZEL) test $(TEST_FLAGS) //tests/hosts:hosts_test

keras-table: build
	$(VENV)/bin/python -m tests.keras.table

test-tensorflow: setup
	tools/test_tensorflow.sh "$(strip $(VERSION))" "$(strip $(PYTHON))" "$(BAZEL)" $(TEST_FLAGS)

demo: build
	$(VENV)/bin/python -m models.digits.demo $(DEMO)

# Arguments, e.g. make experiments EXPERIMENTS="scaling"; the folder that is there goes on.
experiments: build
	$(VENV)/bin/python -m experiments $(or $(EXPERIMENTS),all)

# One after the other: timings don't share a machine. Figures and plots go where docs/performance.md shows them.
RESULTS := docs/performance
bench: build
	$(VENV)/bin/adasumrun -np 2 $(VENV)/bin/python -m benchmarks.allreduce --seconds_by_distance=40 \
	  --json=$(RESULTS)/allreduce2.json --plot=$(RESULTS)/allreduce2.png $(BENCH)
	$(VENV)/bin/adasumrun -np 4 $(VENV)/bin/python -m benchmarks.allreduce \
	  --json=$(RESULTS)/allreduce4.json --plot=$(RESULTS)/allreduce4.png $(BENCH)
	$(VENV)/bin/adasumrun -np 2 $(VENV)/bin/python -m benchmarks.copies --seconds_by_distance=15
	$(VENV)/bin/adasumrun -np 4 $(VENV)/bin/python -m benchmarks.copies
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
	rm -rf dist tf_adasum/_native.so tf_adasum/_arena.so adasumrun/_build_info.py
