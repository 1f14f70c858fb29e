# make demo    environment, a server with eight streams, what it says of them; DEMO_STAY=1 leaves it up
# make quick   unit and structure tests of the checkout as it stands, in a minute: after each edit
# make test    every test that is not long, against the built wheels: before a commit
# make check   lint, types, plain words, proto, stubs
# make docs    the site, in docs/_build/html
PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
# Imports come from the installed wheels, never from the checkout.
export PYTHONSAFEPATH := 1

SOURCES := $(shell find streameval server -type f -not -name '*.pyc') pyproject.toml README.md
# The wheel of the library, which takes extras, and the server's: files of one version, which pip
# needs in one command. Neither name is asked of an index.
LIBRARY := $$(ls dist/streameval-*.whl)
SERVER  := dist/streameval_server-*.whl
PYTEST  := $(PY) -m pytest -p no:cacheprovider
QUICK   := .venv-quick/bin/python
# Tests that drive containers or Spark, or overload a server, have the machine for themselves.
# The files of all others are shared out, in the order of tests/conftest.py, to three processes:
# with two, two cores are idle where both wait for a disk, a browser or a broker.
PROCESSES := 3
ALONE   := tests/deploy/test_images.py tests/load tests/spark
SHARED  := -n $(PROCESSES) --dist loadfile --no-loadscope-reorder $(ALONE:%=--ignore=%) tests

.PHONY: demo quick test test-heavy test-nightly check docs stubs bench fuzz wheel clean

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "streameval needs Python >= 3.11; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install -q --upgrade pip

# Both wheels, built from the sources and installed into the environment. What was there goes first:
# pip takes a wheel of the same version for installed, and a wheel from before there were two
# would take the server's files with it.
$(VENV)/.wheel: $(SOURCES) | $(VENV)/bin/python
	rm -rf dist
	$(PY) -m pip wheel -q --no-deps -w dist . ./server
	$(PY) -m pip uninstall -qq --yes streameval streameval-server
	$(PY) -m pip install -q "$(LIBRARY)[cli,server]" $(SERVER)
	touch $@

$(VENV)/.test: pyproject.toml $(VENV)/.wheel
	$(PY) -m pip install -q "$(LIBRARY)[all]" $(SERVER) --group test
	touch $@

$(VENV)/.check: pyproject.toml $(VENV)/.test
	$(PY) -m pip install -q --group check
	touch $@

wheel: $(VENV)/.wheel

demo: $(VENV)/.wheel
	$(PY) demo

# An environment of its own, in which the checkout is installed editable: nothing is built.
.venv-quick/.made: pyproject.toml server/pyproject.toml
	$(PYTHON) -m venv .venv-quick
	$(QUICK) -m pip install -q --upgrade pip
	$(QUICK) -m pip install -q -e '.[all]' -e ./server --group quick
	touch $@

quick: .venv-quick/.made
	$(QUICK) -m pytest -p no:cacheprovider -q -n 2 --dist loadfile --no-loadscope-reorder \
	    -m "not slow and not heavy and not nightly" tests/unit tests/structure

test: $(VENV)/.test
	$(PYTEST) $(SHARED)
	$(PYTEST) --doctest-modules --pyargs streameval streameval_server

test-heavy: $(VENV)/.test
	$(PYTEST) -m "heavy and not nightly" --timeout 900 $(SHARED)
	$(PYTEST) -m "heavy and not nightly" --timeout 900 $(ALONE)

# What `make test-heavy` runs, and what only repeats it.
test-nightly: $(VENV)/.test
	$(PYTEST) -m "heavy or nightly" --timeout 900 $(SHARED)
	$(PYTEST) -m "heavy or nightly" --timeout 900 $(ALONE)

check: $(VENV)/.check
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	cd proto && ../$(VENV)/bin/buf lint && ../$(VENV)/bin/buf breaking --against baseline.binpb
	$(PY) tools/check_words.py
	tools/stubs.sh --check

docs: $(VENV)/.check
	$(PY) -m pip install -q --group docs
	$(PY) -m sphinx -q -E -W --keep-going -b html docs docs/_build/html

stubs:
	tools/stubs.sh

bench: $(VENV)/.wheel
	$(PY) -m pip install -q "$(LIBRARY)[client,server]" $(SERVER) --group bench
	for table in evaluator.py hull.py bounds.py join.py queries.py client.py ingest.py "growth.py --quick" \
	        "latency.py --quick" "recovery.py --quick" "soak.py --minutes 2 --budget 60"; do \
	    echo; echo "bench/$$table"; PYTHONPATH=bench $(PY) bench/$$table || exit; done

fuzz: $(VENV)/.test
	$(PY) -m pip install -q atheris
	$(PY) bench/fuzz.py --seconds 300
	$(PY) bench/payload_costs.py --bytes 262144 --fail-above 10

clean:
	rm -rf $(VENV) .venv-quick .venv-stubs dist build
