package validate

import (
	"math/big"
	"strings"

	"github.com/tapyr/tapyr/schema"
)

var ruleSpendProtected = &Rule{
	Name:     "spend-protected",
	Severity: schema.SeverityError,
	Summary:  "protected amounts must fit: together into the account's limit, each into its capability's",
	Why: "A protected amount is the part of the account's limit that only one capability may use. More than the limit cannot be set " +
		"aside, and more than the capability may spend is lost to everybody.",
	Wrong: examplePolicy(`{ limit: "100" }`, `{ limit: "100", protected: "150", routes: [standard], fallback: reject }`),
	Right: examplePolicy(`{ limit: "100" }`, `{ limit: "100", protected: "50", routes: [standard], fallback: reject }`),
	check: func(f *finder) {
		for _, p := range f.config.Policies {
			total := new(big.Rat)
			names := sortedKeys(p.Spec.Capabilities)
			for _, name := range names {
				c := p.Spec.Capabilities[name]
				if c.Protected == nil {
					continue
				}
				total.Add(total, amountRat(*c.Protected))
				path := schema.JoinPath("spec.capabilities", name) + ".protected"
				if c.Protected.Cmp(&c.Limit.Decimal) > 0 && amountRat(*c.Protected).Cmp(amountRat(p.Spec.Account.Limit)) <= 0 {
					f.at(p.Doc, path, "protected %s is more than the limit %s of capability %q", c.Protected, &c.Limit, name)
				}
			}
			if total.Cmp(amountRat(p.Spec.Account.Limit)) > 0 {
				f.at(p.Doc, "spec.account.limit", "the protected amounts add up to %s, more than the account's limit %s", ratWords(total), &p.Spec.Account.Limit)
			}
		}
	},
}

// amountRat is an amount exactly.
func amountRat(a schema.Amount) *big.Rat {
	r, ok := new(big.Rat).SetString(a.Text('f'))
	if !ok {
		return new(big.Rat)
	}
	return r
}

// ratWords writes a sum of amounts, which has finitely many decimals.
func ratWords(r *big.Rat) string {
	const mostDecimals = 60 // of an amount
	text := r.FloatString(mostDecimals)
	return strings.TrimRight(strings.TrimRight(text, "0"), ".")
}
