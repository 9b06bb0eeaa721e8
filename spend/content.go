package spend

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/spend/chain"
	"github.com/tapyr/tapyr/window"
)

// contentOf is the spec as canonical JSON, with its hash. Amounts are texts with the decimals that they were written with.
func contentOf(spec *schema.SpendPolicySpec) (content, hash string, err error) {
	text, err := json.Marshal(spec)
	if err != nil {
		return "", "", fmt.Errorf("policy version %q: %w", spec.Version, err)
	}
	tree, err := treeOf(text)
	if err != nil {
		return "", "", fmt.Errorf("policy version %q: %w", spec.Version, err)
	}
	written := amountsOf(spec)
	eachAmount(tree, func(path string, _ any) any { return written[path] })
	if text, err = json.Marshal(tree); err != nil {
		return "", "", fmt.Errorf("policy version %q: %w", spec.Version, err)
	}
	canonical, err := chain.Canonical(text)
	if err != nil {
		return "", "", fmt.Errorf("policy version %q: %w", spec.Version, err)
	}
	sum := sha256.Sum256(canonical)
	return string(canonical), hex.EncodeToString(sum[:]), nil
}

// treeOf reads an object and keeps its numbers as they are written.
func treeOf(text []byte) (tree map[string]any, err error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	err = dec.Decode(&tree)
	return tree, err
}

// eachAmount replaces the amounts of a policy's tree by what the function makes of them.
func eachAmount(tree map[string]any, replace func(path string, value any) any) {
	visit := func(object any, path string, names ...string) {
		members, ok := object.(map[string]any)
		if !ok {
			return
		}
		for _, name := range names {
			if value, ok := members[name]; ok {
				members[name] = replace(path+"/"+name, value)
			}
		}
	}
	visit(tree["account"], "account", "limit")
	routes, _ := tree["routes"].(map[string]any)
	for name, r := range routes {
		visit(r, "routes/"+name, "cost")
	}
	capabilities, _ := tree["capabilities"].(map[string]any)
	for name, c := range capabilities {
		visit(c, "capabilities/"+name, "limit", "protected")
	}
}

// amountsOf are the texts of a spec's amounts by their path.
func amountsOf(spec *schema.SpendPolicySpec) map[string]string {
	texts := map[string]string{"account/limit": spec.Account.Limit.Text('G')}
	for name, r := range spec.Routes {
		texts["routes/"+name+"/cost"] = r.Cost.Text('G')
	}
	for name, c := range spec.Capabilities {
		texts["capabilities/"+name+"/limit"] = c.Limit.Text('G')
		if c.Protected != nil {
			texts["capabilities/"+name+"/protected"] = c.Protected.Text('G')
		}
	}
	return texts
}

// restore makes a stored version ready again.
func restore(v *book.Version) (*Policy, error) {
	fail := func(err error) (*Policy, error) {
		return nil, fmt.Errorf("stored policy %q version %q: %w", v.Policy, v.Version, err)
	}
	tree, err := treeOf([]byte(v.Content))
	if err != nil {
		return fail(err)
	}
	// The document's form of amounts has no exponents and the stored one may have: they are read apart.
	amounts := make(map[string]schema.Amount)
	eachAmount(tree, func(path string, value any) any {
		var a schema.Amount
		text, _ := value.(string)
		if _, _, badAmount := a.SetString(text); badAmount != nil {
			err = fmt.Errorf("amount %q at %s: %w", text, path, badAmount)
		}
		amounts[path] = a
		return "0"
	})
	if err != nil {
		return fail(err)
	}
	spec := new(schema.SpendPolicySpec)
	if err := schema.DecodeTree(tree, spec); err != nil {
		return fail(err)
	}
	setAmounts(spec, amounts)
	var schedule *window.Schedule
	if w := spec.Account.Window; w != nil {
		if schedule, err = window.Compile(w.Spec()); err != nil {
			return fail(fmt.Errorf("account.window: %w", err))
		}
	}
	return compile(v.Policy, spec, schedule)
}

// setAmounts is the inverse of amountsOf.
func setAmounts(spec *schema.SpendPolicySpec, amounts map[string]schema.Amount) {
	spec.Account.Limit = amounts["account/limit"]
	for name, r := range spec.Routes {
		r.Cost = amounts["routes/"+name+"/cost"]
		spec.Routes[name] = r
	}
	for name, c := range spec.Capabilities {
		c.Limit = amounts["capabilities/"+name+"/limit"]
		if c.Protected != nil {
			protected := amounts["capabilities/"+name+"/protected"]
			c.Protected = &protected
		}
		spec.Capabilities[name] = c
	}
}
