# Every target makes the virtual environment itself; `make` alone lists the targets.
PYTHON ?= python3
VENV := .venv
READY := $(VENV)/.ready
DOCS_READY := $(VENV)/.docs-ready
RUN := $(VENV)/bin
RESULTS ?= results
STUDY ?= reclaim-gap
COUNT ?= 2000
SEED ?= $(shell date +%s)

# The parts of `make bench`: modules of experiments/bench, and bundled studies.
BENCHMARKS := reclaim decisions simulation plans machines
SPEED_STUDIES := reclaim-exact reclaim-speed allocation-speed heterogeneous-speed network-speed preemption-speed reclaim-overshoot allocation-overshoot heterogeneous-overshoot network-overshoot preemption-overshoot

# Files that a study reads, which are made if they are missing. Where they are, the study says.
FILES_OF_captured-gap := results/captured
FILES_OF_captured-network-gap := results/captured-network

.PHONY: help study scoreboard test test-slow test-release fuzz lint library docs links bench figures papers clean
.DELETE_ON_ERROR:

help:
	@echo "make study        run a study and draw its report into $(RESULTS)/$(STUDY); STUDY=NAME for another one of experiments/studies"
	@echo "make test         run the tests (about six minutes on two cores)"
	@echo "make test-slow    run the long tests, and those of properties with four times the examples; print the branch coverage of the quick tests"
	@echo "make test-release install the wheel with the oldest and newest versions on every Python that is there, run it far from the source tree, and check every certificate of the library (four minutes)"
	@echo "make fuzz         compare every solver with brute force on COUNT % of the examples that its tests state, and damage files; SEED=N repeats a run"
	@echo "make lint         ruff, mypy, codespell, and a check for phrases that readers stumble over"
	@echo "make docs         build the documentation into $(RESULTS)/docs, its examples run (about three minutes)"
	@echo "make links        ask the network whether what the documentation links to elsewhere is there"
	@echo "make bench        measure the figures of speed into $(RESULTS)/bench (about two hours, on a quiet machine)"
	@echo "make figures      reproduce the published tables into $(RESULTS)/figures and figures-PAPER (about sixteen minutes)"
	@echo "make papers       the same at the papers' own sizes, into the documentation (hours; needs the traces in LYRA_OPT_TRACES)"
	@echo "make scoreboard   run every solver on the instance library, and write the page of the documentation and the results that library score shows (about fifteen minutes)"
	@echo "make library      make the instance library and its pages again, graded anew (hours; needs the traces in LYRA_OPT_TRACES)"
	@echo "make clean        remove the virtual environment, the results and the caches"

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(RUN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	$(RUN)/python -m lyra_opt.experiments.compile_kernels
	@touch $@

$(DOCS_READY): $(READY)
	$(RUN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[docs]'
	@touch $@

$(FILES_OF_captured-gap): | $(READY)
	$(RUN)/lyra-opt simulate lyra-paper --scheme lyra --capture $@ --set capture.most=200

$(FILES_OF_captured-network-gap): | $(READY)
	$(RUN)/lyra-opt simulate dally-batch --scheme dally --set cluster.network.links=congested-2 --set capture.most=200 --capture $@

study: $(READY) $(FILES_OF_$(STUDY))
	# The report is drawn of a study with failed runs too; the target fails then all the same.
	$(RUN)/lyra-opt study $(STUDY) --out $(RESULTS)/$(STUDY) --resume; \
	status=$$?; $(RUN)/lyra-opt report $(RESULTS)/$(STUDY) && exit $$status

# The scoreboard of the documentation, which says when and where it was run.
scoreboard:
	$(MAKE) study STUDY=library
	sed 's#](plots/#](pictures/#' $(RESULTS)/library/scoreboard.md > docs/library_scoreboard.md
	cp $(RESULTS)/library/plots/profiles_*.svg docs/pictures/
	$(RUN)/python -m lyra_opt.experiments.scoreboard_results $(RESULTS)/library

test: $(READY)
	$(RUN)/python -m pytest --numprocesses=auto -m "not slow"

test-slow: $(READY)
	HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-full} $(RUN)/python -m pytest --numprocesses=auto --timeout=3600 -m "slow or hypothesis"
	# The coverage is that of the quick tests: tracing makes the long ones take two to three times as long.
	$(RUN)/python -m pytest --numprocesses=auto --quiet -m "not slow" --cov --cov-report=term

test-release: $(READY)
	$(RUN)/python -m pytest --numprocesses=auto --timeout=3600 -m slow tests/test_installation.py tests/test_packaging.py tests/instances/library/test_shelf.py

fuzz: $(READY)
	# No process may take more than 8 GiB of memory, far more than any instance needs.
	ulimit -v 8388608; HYPOTHESIS_PROFILE=fuzz EXAMPLES=$(COUNT) $(RUN)/python -m pytest --numprocesses=auto --timeout=0 \
	--hypothesis-seed=$(SEED) tests/test_right_answers.py tests/fuzz/test_files.py

lint: $(READY)
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/mypy
	$(RUN)/codespell *.md docs experiments formulations instances lyra_opt paper_figures tests
	$(RUN)/python -m tests.prose

# Links from page to page are checked by the build: one that leads nowhere is a warning, and fails.
docs: $(DOCS_READY)
	$(RUN)/python -m lyra_opt.core.formats docs/formats/*.md
	rm -rf docs/api/generated $(RESULTS)/docs
	$(RUN)/sphinx-build --quiet --fail-on-warning --keep-going --doctree-dir $(RESULTS)/docs-cache docs $(RESULTS)/docs
	! grep -rE '<(script|img)[^>]* src="https?:|<link[^>]* href="https?:' --include='*.html' $(RESULTS)/docs  # needs a network
	@echo "$(RESULTS)/docs/index.html"

links: $(DOCS_READY)
	$(RUN)/sphinx-build --builder linkcheck --define plot_gallery=0 --doctree-dir $(RESULTS)/links-cache docs $(RESULTS)/links

library: $(READY)
	for plan in instances/library/plans/*.toml; do \
	  $(RUN)/python -m lyra_opt.experiments.library --library instances/library --plan $$plan --work $(RESULTS)/library --docs docs || exit 1; \
	done

# Every part is measured, also after one that failed; the target fails then all the same.
bench: $(READY)
	mkdir -p $(RESULTS)/bench
	status=0; \
	for part in $(BENCHMARKS); do \
	  $(RUN)/python -m pytest experiments/bench/$$part.py --benchmark-json=$(RESULTS)/bench/$$part.json --quiet -p no:cacheprovider -W ignore -o timeout=0 || status=1; \
	done; \
	for part in $(SPEED_STUDIES); do \
	  rm -rf $(RESULTS)/bench/$$part; \
	  $(RUN)/lyra-opt study $$part --processes 1 --out $(RESULTS)/bench/$$part || status=1; \
	  $(RUN)/lyra-opt report $(RESULTS)/bench/$$part > /dev/null; \
	done; \
	$(RUN)/python -m lyra_opt.experiments.bench $(RESULTS)/bench && exit $$status

figures: $(READY)
	$(RUN)/lyra-opt paper hadar --run --out $(RESULTS)/figures-hadar --resume
	$(RUN)/lyra-opt paper gavel --run --out $(RESULTS)/figures-gavel --resume
	$(RUN)/lyra-opt paper pollux --run --out $(RESULTS)/figures-pollux --resume
	$(RUN)/lyra-opt paper dally --run --out $(RESULTS)/figures-dally --resume
	$(RUN)/lyra-opt paper lyra --run --out $(RESULTS)/figures --resume

# Tables and figures at the papers' own sizes, as the documentation shows them; the rule of verdicts,
# which ends each page, stands there once, and titles do without the paper's name.
papers: $(READY)
	$(RUN)/lyra-opt paper gavel --run --out $(RESULTS)/papers/gavel --resume
	$(RUN)/lyra-opt paper pollux --run --out $(RESULTS)/papers/pollux --resume
	$(RUN)/lyra-opt paper hadar --run --scale 1 --seeds 3 --out $(RESULTS)/papers/hadar --resume
	$(RUN)/lyra-opt paper dally --run --scale 1 --out $(RESULTS)/papers/dally --resume
	$(RUN)/lyra-opt paper lyra --run --scale 1 --seeds 1 --out $(RESULTS)/papers/lyra --resume
	@for paper in gavel pollux hadar dally lyra; do \
	  rm -rf docs/papers/$$paper && mkdir -p docs/papers/$$paper/plots && \
	  for page in $(RESULTS)/papers/$$paper/*.md; do \
	    sed 's/^\(#\||\) [^:|]*, \([TF][a-z]* [0-9]*:\)/\1 \2/; /^## The rule of verdicts/,$$d' $$page > docs/papers/$$paper/$${page##*/} || exit 1; \
	  done; \
	  cp $(RESULTS)/papers/$$paper/plots/*.svg docs/papers/$$paper/plots/ 2> /dev/null || true; \
	done
	sed '1,/^## The rule of verdicts/d' $(RESULTS)/papers/lyra/overview.md > docs/papers/rule.md

clean:
	rm -rf $(VENV) $(RESULTS) $(FILES_OF_captured-gap) $(FILES_OF_captured-network-gap) .mypy_cache .pytest_cache docs/_gallery docs/api/generated .ruff_cache .hypothesis .coverage
