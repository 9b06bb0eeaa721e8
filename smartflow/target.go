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
func (d dialect) target(url string) Key {
	path := d.searched(url)
	if id := idAfter(path, "/organizations/"); id != "" {
		return Key{organization, id}
	}
	if id := idAfter(path, "/networks/"); id != "" {
		return Key{Network, id}
	}
	if id := idAfter(path, "/devices/"); id != "" {
		return Key{Device, id}
	}
	return Key{}
}

// scoped tells whether the URL belongs to one organization without naming it: the
// "unresolved scoped URL" of section 5, which is a matter of the URL alone.
func (k Key) scoped() bool { return k.Kind == Network || k.Kind == Device }

// searched returns the part of a URL in which identifiers are searched: the path.
// The host cannot contain a slash, so it does no harm.
func (d dialect) searched(url string) string {
	if d.wholeURL {
		return url
	}
	if i := strings.IndexByte(url, '?'); i >= 0 {
		url = url[:i]
	}
	if i := strings.IndexByte(url, '#'); i >= 0 {
		url = url[:i]
	}
	return url
}

// idAfter finds the first place where prefix is followed by at least one character
// that is no slash, and returns the characters up to the next slash. It is the
// regular expression prefix([^/]+), searched, without its cost: this runs for every
// request. learner.go holds the plain twin that a test compares it with.
func idAfter(path, prefix string) string {
	for {
		i := strings.Index(path, prefix)
		if i < 0 {
			return ""
		}
		// The slash that ends this prefix may begin the next one, so it stays.
		path = path[i+len(prefix)-1:]
		id, _, _ := strings.Cut(path[1:], "/")
		if id != "" {
			return id
		}
	}
}
