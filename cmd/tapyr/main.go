// Command tapyr keeps programs that poll other people's HTTP APIs inside the
// limits of those APIs.
package main

import (
	"os"
	_ "time/tzdata" // quota windows end at midnight somewhere: every zone must resolve on any host

	"github.com/tapyr/tapyr/cmd/internal/cli"
)

func main() {
	os.Exit(cli.Main())
}
