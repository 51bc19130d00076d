# `make help` lists the targets. Every target that needs environments builds them first, and only then.
SHELL := /bin/bash
PYTHON ?= python3
MODEL ?= demo
RECIPE ?= fp8-dynamic
GATE := .venv/bin/quant-gate
SETUP = $(PYTHON) -m pipeline.environments setup
# Images for containers like to set it; each process would then compile its imports anew, seconds every time.
unexport PYTHONDONTWRITEBYTECODE
export MODEL RECIPE GOLDEN SERVING POLICY EXPLORE FULL CALIBRATION COMBINED ALL LOAD TRY RUN BY NOTE WAIVE EXPIRES

.PHONY: help setup gate ladder diagnose selftest signoff test test-fast lint ui clean benchmarks
.DEFAULT_GOAL := help

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14
	@echo
	@echo "  make gate MODEL=demo RECIPE=fp8-dynamic [GOLDEN=set] [SERVING=name] [POLICY=file] [CALIBRATION=dir]"
	@echo "            [EXPLORE=1] [LOAD=1] [COMBINED=1]"
	@echo "    MODEL: demo, demo-raw, a directory, a hub id[@revision], models:/name@alias"
	@echo "    COMBINED=1 allows a recipe that changes weights and KV cache at once; ladder and diagnose take it too"

setup: ## build all environments that are missing or whose pins changed
	@$(SETUP)

# The run builds the quantizer's environment when it needs it, beside the imports of the engine, which take longest.
gate: ## quantize MODEL by RECIPE, compare, and answer ACCEPT, REJECT, INCONCLUSIVE or INVALID
	@$(SETUP) pipeline serve
	@$(GATE) run --model "$$MODEL" --recipe "$$RECIPE" $${GOLDEN:+--golden "$$GOLDEN"} \
	  $${SERVING:+--serving "$$SERVING"} $${POLICY:+--policy "$$POLICY"} $$([ "$$EXPLORE" != 1 ] || echo --explore) \
	  $${CALIBRATION:+--calibration "$$CALIBRATION"} $$([ "$$LOAD" != 1 ] || echo --load) \
	  $$([ "$$COMBINED" != 1 ] || echo --combined)

ladder: ## gate several recipes of MODEL, choose the smallest that passes; ALL=1 measures every one of them, LOAD=1 their speed
	@$(SETUP) pipeline serve
	@$(GATE) ladder "$$MODEL" $${GOLDEN:+--golden "$$GOLDEN"} $${SERVING:+--serving "$$SERVING"} \
	  $${POLICY:+--policy "$$POLICY"} $${CALIBRATION:+--calibration "$$CALIBRATION"} $$([ "$$ALL" != 1 ] || echo --all) \
	  $$([ "$$LOAD" != 1 ] || echo --load) $$([ "$$COMBINED" != 1 ] || echo --combined)

diagnose: ## after a REJECT: which parts of RECIPE's candidate hurt, and the recipe to try next; TRY=1 gates that too
	@$(SETUP) pipeline serve
	@$(GATE) diagnose --model "$$MODEL" --recipe "$$RECIPE" $${GOLDEN:+--golden "$$GOLDEN"} \
	  $${SERVING:+--serving "$$SERVING"} $${POLICY:+--policy "$$POLICY"} $$([ "$$EXPLORE" != 1 ] || echo --explore) \
	  $${CALIBRATION:+--calibration "$$CALIBRATION"} $$([ "$$TRY" != 1 ] || echo --run) \
	  $$([ "$$LOAD" != 1 ] || echo --load) $$([ "$$COMBINED" != 1 ] || echo --combined)

selftest: ## inject known faults into the gate and measure its error rates; FULL=1 spoils real candidates too
	@$(SETUP) $$([ "$$FULL" = 1 ] || echo pipeline)
	@$(GATE) selftest $$([ "$$FULL" != 1 ] || echo --full)

signoff: ## sign RUN (default: the newest) off: BY=name NOTE=text [WAIVE=reason EXPIRES=date]
	@$(SETUP) pipeline
	@$(GATE) signoff "$${RUN:-latest}" --by "$$BY" --note "$$NOTE" \
	  $${WAIVE:+--waive "$$WAIVE"} $${EXPIRES:+--expires "$$EXPIRES"}

test: test-fast ## all tests: unit tests first, then those with the real engine
	.venv/bin/pytest tests/integration

# At least four at once: many of them wait for processes.
test-fast: setup ## unit tests only, under two minutes
	.venv/bin/pytest -n $$(n=$$(nproc); echo $$((n < 4 ? 4 : n))) tests/unit

lint: ## ruff, mypy and the import contracts
	@$(SETUP) pipeline
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports

ui: ## MLflow's pages on 127.0.0.1 (PORT=5000)
	@$(SETUP) pipeline
	@$(GATE) ui --port $(or $(PORT),5000)

benchmarks: setup ## ratios of speed, each pair measured side by side in one run
	.venv/bin/python benchmarks

clean: ## remove environments and kept stage outputs; MLflow's records in mlruns/ and uv's download cache stay
	rm -rf .venv .venvs .quant-gate .pytest_cache .mypy_cache .ruff_cache .import_linter_cache *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
