# Every target makes the virtual environment itself; `make` alone lists the targets.
PYTHON ?= python3
VENV := .venv
READY := $(VENV)/.ready
RUN := $(VENV)/bin
RESULTS ?= results
STUDY ?= reclaim-gap
COUNT ?= 100000

# Files that a study reads, which are made if they are missing. Where they are, the study says.
FILES_OF_captured-gap := results/captured
FILES_OF_captured-network-gap := results/captured-network

.PHONY: help study test test-slow fuzz lint docs bench figures clean
.DELETE_ON_ERROR:

help:
	@echo "make study    run a study and draw its report into $(RESULTS)/$(STUDY); STUDY=NAME for another one of experiments/studies"
	@echo "make test     run the tests (about six minutes on two cores)"
	@echo "make test-slow run the tests that take minutes"
	@echo "make fuzz     hold every solver against brute force on COUNT odd instances, and damage files; SEED=N for those of a run before"
	@echo "make lint     ruff and mypy"
	@echo "make docs     make the tables of keys in docs/formats.md anew"
	@echo "make bench    measure the figures of speed into $(RESULTS)/bench (about forty minutes, on a quiet machine)"
	@echo "make figures  reproduce the published tables into $(RESULTS)/figures, figures-hadar and figures-dally (about sixteen minutes)"
	@echo "make clean    remove the virtual environment, the results and the caches"

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(RUN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

$(FILES_OF_captured-gap): | $(READY)
	$(RUN)/lyra-opt simulate lyra-paper --scheme lyra --capture $@ --set capture.most=200

$(FILES_OF_captured-network-gap): | $(READY)
	$(RUN)/lyra-opt simulate dally-batch --scheme dally --set cluster.network.links=congested-2 --set capture.most=200 --capture $@

study: $(READY) $(FILES_OF_$(STUDY))
	# The report is drawn of a study with failed runs too; the target fails then all the same.
	$(RUN)/lyra-opt study $(STUDY) --out $(RESULTS)/$(STUDY) --resume; \
	status=$$?; $(RUN)/lyra-opt report $(RESULTS)/$(STUDY) && exit $$status

test: $(READY)
	$(RUN)/python -m pytest --numprocesses=auto -m "not slow"

test-slow: $(READY)
	$(RUN)/python -m pytest --numprocesses=auto -m slow

fuzz: $(READY)
	$(RUN)/python -m tests.fuzz --count $(COUNT) $(if $(SEED),--seed $(SEED)) --out $(RESULTS)/fuzz

lint: $(READY)
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/mypy

docs: $(READY)
	$(RUN)/python -m lyra_opt.core.format_tables docs/formats.md

bench: $(READY)
	$(RUN)/python -m lyra_opt.experiments.bench --out $(RESULTS)/bench

figures: $(READY)
	$(RUN)/lyra-opt paper hadar --out $(RESULTS)/figures-hadar --resume
	$(RUN)/lyra-opt paper gavel --out $(RESULTS)/figures-gavel --resume
	$(RUN)/lyra-opt paper pollux --out $(RESULTS)/figures-pollux --resume
	$(RUN)/lyra-opt paper dally --out $(RESULTS)/figures-dally --resume
	$(RUN)/lyra-opt paper lyra --out $(RESULTS)/figures --resume

clean:
	rm -rf $(VENV) $(RESULTS) $(FILES_OF_captured-gap) $(FILES_OF_captured-network-gap) .mypy_cache .pytest_cache .ruff_cache .hypothesis
