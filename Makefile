# make demo    environment, server, a real model's predictions, live AUC-PR; DEMO_STAY=1 leaves it up
# make test    every test, against the built wheel
# make check   lint, types, plain words, proto, stubs
# make docs    the site, in docs/_build/html
PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
# Imports come from the installed wheel, never from the checkout.
export PYTHONSAFEPATH := 1

SOURCES := $(shell find streameval server -type f -not -name '*.pyc') pyproject.toml README.md
PYTEST  := $(PY) -m pytest -p no:cacheprovider
# Tests that drive containers or Spark, or overload a server, have the machine for themselves.
# The files of all others are shared out, in the order of tests/conftest.py, to three processes:
# with two, two cores are idle where both wait for a disk, a browser or a broker.
PROCESSES := 3
ALONE   := tests/deploy/test_images.py tests/load tests/spark
SHARED  := -n $(PROCESSES) --dist loadfile --no-loadscope-reorder $(ALONE:%=--ignore=%) tests

.PHONY: demo test test-heavy check docs stubs bench fuzz wheel clean

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "streameval needs Python >= 3.11; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install -q --upgrade pip

# The wheel, built from the sources and installed into the environment.
$(VENV)/.wheel: $(SOURCES) | $(VENV)/bin/python
	rm -rf dist
	$(PY) -m pip wheel -q --no-deps -w dist .
	$(PY) -m pip install -q "$$(ls dist/*.whl)[demo]"
	$(PY) -m pip install -q --no-deps --force-reinstall dist/*.whl
	touch $@

$(VENV)/.test: pyproject.toml $(VENV)/.wheel
	$(PY) -m pip install -q "$$(ls dist/*.whl)[all]" --group test
	touch $@

$(VENV)/.check: pyproject.toml $(VENV)/.test
	$(PY) -m pip install -q --group check
	touch $@

wheel: $(VENV)/.wheel

demo: $(VENV)/.wheel
	$(PY) demo

test: $(VENV)/.test
	$(PYTEST) $(SHARED)
	$(PYTEST) $(ALONE)
	$(PYTEST) --doctest-modules --pyargs streameval streameval_server

test-heavy: $(VENV)/.test
	$(PYTEST) -m heavy --timeout 900 $(SHARED)
	$(PYTEST) -m heavy --timeout 900 $(ALONE)

check: $(VENV)/.check
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	cd proto && ../$(VENV)/bin/buf lint && ../$(VENV)/bin/buf breaking --against baseline.binpb
	$(PY) tools/check_words.py
	tools/stubs.sh --check

docs: $(VENV)/.check
	$(PY) -m pip install -q --group docs
	$(PY) -m sphinx -q -W --keep-going -b html docs docs/_build/html

stubs:
	tools/stubs.sh

bench: $(VENV)/.wheel
	$(PY) -m pip install -q "$$(ls dist/*.whl)[bench]"
	for table in evaluator.py hull.py bounds.py join.py queries.py client.py ingest.py "growth.py --quick" \
	        "latency.py --quick" "recovery.py --quick" "soak.py --minutes 2 --budget 60"; do \
	    echo; echo "bench/$$table"; PYTHONPATH=bench $(PY) bench/$$table || exit; done

fuzz: $(VENV)/.test
	$(PY) -m pip install -q atheris
	$(PY) bench/fuzz.py --seconds 300

clean:
	rm -rf $(VENV) .venv-stubs dist build demo-out
