# tapyr: build, test, measure. "make help" lists the targets.

GO ?= go

# The tools that check the code are pinned here and nowhere else. Each is built
# once, by the Go that also builds tapyr: a linter built by an older Go cannot
# read what a newer one compiled.
GOLANGCI_LINT_VERSION := v2.15.0
GOFUMPT_VERSION       := v0.12.0
GOVULNCHECK_VERSION   := v1.9.0

# How long "make test" and "make fuzz" give to each fuzz target.
FUZZTIME ?= 2s
# What to test, and more flags for go test, as in: make test PACKAGES=./window TESTFLAGS='-run Golden'
PACKAGES ?= ./...
TESTFLAGS ?=

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null)
LDFLAGS := $(if $(VERSION),-X github.com/tapyr/tapyr/cmd/internal/cli.version=$(VERSION))

GOVERSION     := $(shell $(GO) env GOVERSION)
TOOLS         := $(CURDIR)/bin/tools
GOLANGCI_LINT := $(TOOLS)/golangci-lint-$(GOLANGCI_LINT_VERSION)-$(GOVERSION)
GOFUMPT       := $(TOOLS)/gofumpt-$(GOFUMPT_VERSION)-$(GOVERSION)
GOVULNCHECK   := $(TOOLS)/govulncheck-$(GOVULNCHECK_VERSION)-$(GOVERSION)

.DEFAULT_GOAL := build

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/tapyr
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/tapyr ./cmd/tapyr

.PHONY: test
test: vet lint ## check everything: vet, lint, race tests, scripts, the documents' commands, vectors, fuzzers
	$(GO) run ./cmd/internal/testrun -fuzztime $(FUZZTIME) -- -race $(TESTFLAGS) $(PACKAGES)

.PHONY: vet
vet: ## run go vet
	$(GO) vet $(PACKAGES)

.PHONY: lint
lint: $(GOLANGCI_LINT) $(GOFUMPT) ## run golangci-lint and look for what gofumpt would change
	$(GOLANGCI_LINT) run $(PACKAGES)
	@unformatted=$$($(GOFUMPT) -l .) && test -z "$$unformatted" || \
		{ echo "not in the format of gofumpt (make fmt changes that):"; echo "$$unformatted"; exit 1; }

.PHONY: fmt
fmt: $(GOFUMPT) ## rewrite the sources in the format of gofumpt
	$(GOFUMPT) -w .

.PHONY: vuln
vuln: $(GOVULNCHECK) ## look for known vulnerabilities in what tapyr calls
	$(GOVULNCHECK) ./...

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME
	$(GO) run ./cmd/internal/testrun -fuzztime $(FUZZTIME) -- -run '^Fuzz' $(TESTFLAGS) $(PACKAGES)

.PHONY: generate
generate: ## write generated files again
	$(GO) generate ./...

.PHONY: bench
bench: ## run the benchmarks
	$(GO) test -run '^$$' -bench . -benchmem $(TESTFLAGS) $(PACKAGES)

.PHONY: soak
soak: ## run the tests that "make test" runs in a reduced form, at full length
	TAPYR_SOAK=1 $(GO) run ./cmd/internal/testrun -fuzztime 5m -- -race -timeout 6h $(TESTFLAGS) $(PACKAGES)

.PHONY: clean
clean: ## remove what was built here
	rm -rf bin out

# A tool goes into a folder of its own first: go install knows no other way to
# choose the name of the file.
define install-tool
	@mkdir -p $(TOOLS)/new
	GOBIN=$(TOOLS)/new GOFLAGS= GOTOOLCHAIN=$(GOVERSION) $(GO) install $(1)
	@mv $(TOOLS)/new/$(2) $@ && rmdir $(TOOLS)/new
endef

$(GOLANGCI_LINT):
	$(call install-tool,github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION),golangci-lint)

$(GOFUMPT):
	$(call install-tool,mvdan.cc/gofumpt@$(GOFUMPT_VERSION),gofumpt)

$(GOVULNCHECK):
	$(call install-tool,golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION),govulncheck)
