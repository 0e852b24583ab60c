# The work is done by deploy/bootstrap.py; this file finds a Python for it. Plain GNU make 3.81, for macOS.
MAKEFLAGS += --no-print-directory
SHELL := /bin/sh
export ARGS

# Each candidate is really run: a shim may be on the path and refuse.
NEW_ENOUGH := import sys; sys.version_info >= (3, 11) or sys.exit(1); print(sys.executable)
PYTHON := $(shell for python in python3.14 python3.13 python3.12 python3.11 python3 python; do \
	"$$python" -c '$(NEW_ENOUGH)' 2>/dev/null && break; done)
ifneq ($(PYTHON),)
RUN := "$(PYTHON)"
else ifneq ($(shell command -v uv 2>/dev/null),)
RUN := uv run --quiet --no-project --python '>=3.11' python
else
$(error Waybill needs Python 3.11 or newer, or uv (https://docs.astral.sh/uv) to bring one: neither is on the path)
endif

.PHONY: help up test check bench fuzz prove clean lock

help:
	@echo 'make up      start Waybill on this machine, with everything it needs'
	@echo 'make test    run the whole test suite; make test ARGS="-k inbox" runs a part of it'
	@echo 'make check   linters, formats, types, imports'
	@echo 'make bench   measure, one line of JSON per benchmark (about 10 minutes); ARGS="drain_noop" chooses'
	@echo 'make fuzz    14 workers that die, dawdle and repeat themselves; ARGS="--seed 7 --claims 5000" chooses'
	@echo 'make prove   the long proofs, one line of JSON each; ARGS="storm" chooses'
	@echo 'make clean   remove the environment, the data and every cache of this clone'
	@echo 'make lock    resolve the dependencies anew into both lock files'

# exec as the only line: signals sent to make must reach the program.
up:
	@exec $(RUN) deploy/bootstrap.py up

test:
	@exec $(RUN) deploy/bootstrap.py test

check:
	@exec $(RUN) deploy/bootstrap.py check

bench:
	@exec $(RUN) deploy/bootstrap.py bench

fuzz:
	@exec $(RUN) deploy/bootstrap.py fuzz

prove:
	@exec $(RUN) deploy/bootstrap.py prove

clean:
	@exec $(RUN) deploy/bootstrap.py clean

lock:
	@exec $(RUN) deploy/bootstrap.py lock
