# Needs only make and a python3.11 or later with its venv module; everything else comes from requirements/dev.txt, by hash.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
READY := .venv/.ready
GO_CLIENT := build/clients/go/client
GO_MODULE := penstock.example/client
NODE_CLIENT := build/clients/node/.ready
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help demo test test-busy clients lint format types pictures bench bench-peers bench-spark bench-spark-stream bench-kafka campaign spark-stream-kills kafka-kills kafka-storms partition-kills damage odd-arguments puts connector-kills serve-stops linear-kills serve-silence console-load console-screenshots stubs lock clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): requirements/dev.txt pyproject.toml
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "penstock needs Python 3.11 or later: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' || { echo "this Python has no venv module: install it (Debian: apt-get install python3-venv)" >&2; exit 1; }
	"$(PYTHON)" -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: $(READY) ## a small real story, to its end, in under a minute
	$(BIN)/python -m examples.demo $(ARGS)

test: $(READY) ## all tests, three at a time, since many wait; some of them: make test ARGS=tests/cache
	@command -v go >/dev/null && command -v npm >/dev/null && $(MAKE) --silent clients || true  # without them the tests of clients are left out, by name
	$(BIN)/python -m pytest -n 3 --dist loadgroup $(ARGS)

clients: $(GO_CLIENT) $(NODE_CLIENT) ## the clients in Go (1.19 or later) and Node (18.3 or later), into build/clients

# The package penstockpb is generated here and is not in git, so it can't differ from the definition.
$(GO_CLIENT): $(wildcard examples/clients/go/*) penstock/rpc/penstock.proto | $(READY)
	@command -v go >/dev/null || { echo "the client in Go needs Go 1.19 or later: install it (Debian: apt-get install golang-go), then run make clients" >&2; exit 1; }
	@mkdir -p $(@D)
	cp $(filter examples/%,$^) $(@D)
	cd $(@D) && CGO_ENABLED=0 go build -buildvcs=false -o bin/ google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc
	$(BIN)/python -m grpc_tools.protoc -Ipenstock/rpc --plugin=$(@D)/bin/protoc-gen-go --plugin=$(@D)/bin/protoc-gen-go-grpc \
	  --go_out=$(@D) --go-grpc_out=$(@D) $(foreach out,go go-grpc,--$(out)_opt=module=$(GO_MODULE),Mpenstock.proto=$(GO_MODULE)/penstockpb) penstock.proto
	cd $(@D) && CGO_ENABLED=0 go vet . && CGO_ENABLED=0 go build -buildvcs=false -o $(@F) .

$(NODE_CLIENT): $(addprefix examples/clients/node/,client.js package.json package-lock.json .npmrc) penstock/rpc/penstock.proto
	@command -v npm >/dev/null || { echo "the client in Node needs Node 18.3 or later and npm: install them (Debian: apt-get install nodejs npm), then run make clients" >&2; exit 1; }
	@mkdir -p $(@D)
	cp $^ $(@D)
	cd $(@D) && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

test-busy: $(READY) ## the same beside two processes that burn a core each, which end with it
	$(BIN)/python -m tests.busy -n 2 --dist loadgroup $(ARGS)

lint: $(READY) ## style: ruff check and ruff format --check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(READY) ## let ruff mend the style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(READY) ## mypy --strict and pyright
	$(BIN)/mypy --strict penstock bench examples
	$(BIN)/pyright penstock bench examples

pictures: $(READY) ## draw the README's pictures of the command line again
	$(BIN)/python -m examples.pictures

bench: $(READY) ## every figure beside its limits; one of them: make bench ARGS="--only put"
	$(BIN)/python -m bench $(ARGS)

bench-peers: $(READY) ## Penstock beside PostgreSQL, SQLite, DuckDB and others, into bench/RESULTS.md; make bench-peers ARGS="--quick"
	$(BIN)/python -m bench.peers $(ARGS)

bench-spark: $(READY) ## filling a store in bulk, beside load and DuckDB; make bench-spark ARGS="--docs 10000000"
	$(BIN)/python -m bench.spark $(ARGS)

bench-spark-stream: $(READY) ## a stream on Spark, beside load; make bench-spark-stream ARGS="--batch 100000"
	$(BIN)/python -m bench.spark_stream $(ARGS)

bench-kafka: $(READY) ## topics in and out, beside each client alone; it starts a broker (Maven, Java)
	$(BIN)/python -m bench.kafka $(ARGS)

spark-stream-kills: $(READY) ## kill drivers, state processes and workers of a stream; make spark-stream-kills ARGS="--kills 50"
	$(BIN)/python -m tests.spark.streaming.kills $(ARGS)

kafka-kills: $(READY) ## kill engine and broker 200 times; make kafka-kills ARGS="--client confluent --seed 2"
	$(BIN)/python -m tests.kafka.killing --kills 200 $(ARGS)

kafka-storms: $(READY) ## kill, stop, end and begin members of a group; make kafka-storms ARGS="--strikes 300"
	$(BIN)/python -m tests.kafka.storms $(ARGS)

partition-kills: $(READY) ## kill partitions and who serves them; make partition-kills ARGS="--kills 500 --zombies 100 --seed 1"
	$(BIN)/python -m tests.partitions.partition_kills $(ARGS)

damage: $(READY) ## damage a store in many ways, and look for a wrong answer or a crash; make damage ARGS="--flips 5000"
	$(BIN)/python -m tests.faults.damage $(ARGS)

odd-arguments: $(READY) ## call the public API with odd arguments; make odd-arguments ARGS="--calls 20000 --seed 3"
	$(BIN)/python -m tests.engine.odd_arguments $(ARGS)

puts: $(READY) ## 200 programs put into one store that nobody holds; make puts ARGS="--at-once 30 --budget 600"
	$(BIN)/python -m tests.cli.commands.puts --spawn --processes 200 --at-once 8 --budget 1800 $(ARGS)

campaign: $(READY) ## crash more: seeds after all those before; make campaign ARGS="--budget 30m"
	$(BIN)/python -m penstock.testing.campaign --totals tests/testing/campaign.json $(ARGS)

connector-kills: $(READY) ## kill stores that exchange data by connectors; ARGS="--kills 300 --kind worker --kind runs"
	$(BIN)/python -m tests.spout.wallaroo_kills $(ARGS)

console-load: $(READY) ## measure the console beside 10,000 changes per second; make console-load ARGS="--seconds 5"
	$(BIN)/python -m tests.serve.browser.console_load $(ARGS)

console-screenshots: $(READY) ## draw each page of the console into docs/console (needs chromium and chromedriver)
	$(BIN)/python -m tests.serve.browser.screenshots

serve-stops: $(READY) ## stop and kill servers under load; make serve-stops ARGS="--rounds 200 --seed 2"
	$(BIN)/python -m tests.serve.stops $(ARGS)

linear-kills: $(READY) ## kill a process of a server beside calls with conditions; ARGS="--rounds 200 --seed 2"
	$(BIN)/python -m tests.client.histories $(ARGS)

stubs: $(READY) ## generate the code of penstock/rpc/penstock.proto again
	$(BIN)/python -m grpc_tools.protoc -Ipenstock/rpc --python_out=penstock/rpc --pyi_out=penstock/rpc penstock.proto

serve-silence: $(READY) ## hold silent connections at a server; make serve-silence ARGS="--connections 10000"
	$(BIN)/python -m tests.serve.silence $(ARGS)

lock: $(READY) ## write requirements/dev.txt anew from dev.in (needs uv)
	uv pip compile requirements/dev.in --quiet --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-emit-find-links --no-annotate --no-header -o requirements/dev.txt

clean: ## remove what was made here
	rm -rf .venv build dist bench/run .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
