# `make help` lists the targets. Every target that needs environments builds them first, and only then.
SHELL := /bin/bash
PYTHON ?= python3
MODEL ?= demo
RECIPE ?= fp8-dynamic
GATE := .venv/bin/quant-gate
export MODEL RECIPE GOLDEN SERVING POLICY

.PHONY: help setup gate test test-fast lint ui clean benchmarks
.DEFAULT_GOAL := help

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14
	@echo
	@echo "  make gate MODEL=demo RECIPE=fp8-dynamic [GOLDEN=set] [SERVING=name] [POLICY=file]"
	@echo "    MODEL: demo, demo-raw, a directory, a hub id[@revision], models:/name@alias"

setup: ## build the environments that are missing or whose pins changed
	@$(PYTHON) -m pipeline.environments setup

gate: setup ## quantize MODEL by RECIPE, compare, and answer ACCEPT, REJECT, INCONCLUSIVE or INVALID
	@$(GATE) run --model "$$MODEL" --recipe "$$RECIPE" $${GOLDEN:+--golden "$$GOLDEN"} \
	  $${SERVING:+--serving "$$SERVING"} $${POLICY:+--policy "$$POLICY"}

test: test-fast ## all tests: unit tests first, then those with the real engine
	.venv/bin/pytest tests/integration

test-fast: setup ## unit tests only, under two minutes
	.venv/bin/pytest tests/unit

lint: setup ## ruff, mypy and the import contracts
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports

ui: setup ## MLflow's pages on 127.0.0.1 (PORT=5000)
	@$(GATE) ui --port $(or $(PORT),5000)

benchmarks: setup ## ratios of speed, each pair measured side by side in one run
	.venv/bin/python benchmarks

clean: ## remove environments and kept stage outputs; MLflow's records in mlruns/ stay
	rm -rf .venv .venvs .quant-gate .pytest_cache .mypy_cache .ruff_cache .import_linter_cache *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
