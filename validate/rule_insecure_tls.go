package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var ruleInsecureTLS = &Rule{
	Name:     "insecure-tls",
	Severity: schema.SeverityWarning,
	Summary:  "a server's certificate should be checked",
	Why: "Without the check anybody between here and there can pose as the server and gets the credentials. For a device with a " +
		"certificate of its own, save that certificate and name it in tls.caFile.",
	Wrong: exampleDocument("Account", "main", `
provider: example
tls: { insecureSkipVerify: true }`),
	Right: exampleDocument("Account", "main", `
provider: example
tls: { caFile: /etc/tapyr/routers.pem }`),
	check: func(f *finder) {
		for _, a := range f.config.Accounts {
			if a.Spec.TLS != nil && a.Spec.TLS.InsecureSkipVerify {
				f.at(a.Doc, "spec.tls.insecureSkipVerify", "certificates of account %q are not checked; trust the device's own with tls.caFile instead", a.Name)
			}
		}
	},
}
