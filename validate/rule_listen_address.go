package validate

import (
	"net"
	"strconv"

	"github.com/tapyr/tapyr/schema"
)

var ruleListenAddress = &Rule{
	Name:     "listen-address",
	Severity: schema.SeverityError,
	Summary:  "status.listen must be an address with a port",
	Why: "Such as 127.0.0.1:9469, [::1]:9469 or localhost:9469. Beyond loopback everybody who reaches the address can read the plan " +
		"and admit spend, so a token is needed there: without one, a warning, and tapyr run refuses to listen.",
	Wrong: exampleDocument("Settings", "default", `status: { listen: localhost }`),
	Right: exampleDocument("Settings", "default", `status: { listen: "localhost:9469" }`),
	check: func(f *finder) {
		s := f.config.Settings
		if s.Doc == nil || s.Spec.Status.Listen == "" {
			return
		}
		host, port, err := net.SplitHostPort(s.Spec.Status.Listen)
		number, portErr := strconv.ParseUint(port, 10, 16)
		switch {
		case err != nil || portErr != nil:
			f.at(s.Doc, "spec.status.listen", "listen %q is not an address with a port from 0 to 65535, such as 127.0.0.1:9469", s.Spec.Status.Listen)
		case !loopback(host) && s.Spec.Status.Token == nil:
			f.warn(s.Doc, "spec.status.listen", "listen %q reaches beyond this machine and there is no status.token; tapyr run will refuse", s.Spec.Status.Listen)
		case number == 0:
			f.warn(s.Doc, "spec.status.listen", "port 0 is another port at every start")
		}
	},
}
