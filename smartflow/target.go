package smartflow

import "strings"

// Network and Device are the kinds of identifiers that the vendor scopes a URL by
// when it does not name the organization.
const (
	Network = "network"
	Device  = "device"
)

// organization is the kind of a target that needs no look-up.
const organization = "organization"

// Key is an identifier that stands for an organization once that is known.
type Key struct {
	Kind string // Network or Device for the Meraki API; what a LearnSpec says in general
	ID   string
}

// target returns what a URL says about its organization, by the order of section 3
// of the specification: the organization itself, else a network, else a device. A
// network that is not known yet still hides a device. The Kind of a URL that names
// none of them is empty.
func (d *dialect) target(url string) Key {
	found := d.scan(url, true)
	switch {
	case found.org != "":
		return Key{organization, found.org}
	case found.network != "":
		return Key{Network, found.network}
	case found.device != "":
		return Key{Device, found.device}
	}
	return Key{}
}

// scoped tells whether the URL belongs to one organization without naming it: the
// "unresolved scoped URL" of section 5, which is a matter of the URL alone.
func (k Key) scoped() bool { return k.Kind == Network || k.Kind == Device }

// identifiers are what a URL contains; empty = nothing of that kind.
type identifiers struct{ org, network, device string }

// scan finds the first of each kind in the path of a URL. It may stop once it has
// found an organization.
//
// It does what searching the regular expressions /organizations/([^/]+) and the like
// does, in one pass without allocations: this runs for every request. The plain twin
// is Learner, and a test compares the two.
func (d *dialect) scan(url string, orgOnly bool) (found identifiers) {
	for i := 0; i < len(url); i++ {
		c := url[i]
		if c != '/' {
			if (c == '?' || c == '#') && !d.wholeURL {
				return found
			}
			continue
		}
		if i+1 == len(url) {
			return found
		}
		// One comparison rules most segments out.
		var into *string
		var name string
		switch url[i+1] {
		case 'o':
			into, name = &found.org, "organizations/"
		case 'n':
			into, name = &found.network, "networks/"
		case 'd':
			into, name = &found.device, "devices/"
		default:
			continue
		}
		if *into != "" || !strings.HasPrefix(url[i+1:], name) {
			continue
		}
		*into = d.segment(url[i+1+len(name):])
		if orgOnly && found.org != "" {
			return found
		}
		// Go on at the slash that ends the name: what follows may be an identifier of
		// this kind and the name of the next kind at once.
		i += len(name) - 1
	}
	return found
}

// segment returns what stands before the next slash, or the end of the path.
func (d *dialect) segment(rest string) string {
	for i := range len(rest) {
		if c := rest[i]; c == '/' || (!d.wholeURL && (c == '?' || c == '#')) {
			return rest[:i]
		}
	}
	return rest
}
