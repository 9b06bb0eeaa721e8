package smartflow

import (
	"encoding/json"
	"errors"
	"regexp"
	"strconv"
	"strings"
)

// dialect names the points in which this limiter departs from the published
// Python reference on purpose; the package documentation gives the reasons. The
// zero value is the product. Conform runs with all of them set, so that every
// recorded sequence can be compared.
type dialect struct {
	// wholeURL searches identifiers in the query and the fragment as well.
	wholeURL bool
	// anySerial learns whatever follows /devices/ as a serial.
	anySerial bool
	// anyID takes numbers, null and the empty string for identifiers, and fails on
	// arrays and objects, as keys of a Python dictionary do.
	anyID bool
	// looseCache keeps the entries before a damaged one, fails on wrong types, reads
	// timestamps as strptime does, and takes a file from the future for fresh.
	looseCache bool
	// lookupByID takes a network and a device of the same identifier for one look-up.
	lookupByID bool
	// literalFloor keeps the floor of 0.5 where a lower rate was configured.
	literalFloor bool
	// flushInline saves within the call that reaches the threshold, and lets a
	// failure surface there.
	flushInline bool
}

// reference is the dialect of the published implementation.
var reference = dialect{
	wholeURL: true, anySerial: true, anyID: true, looseCache: true,
	lookupByID: true, literalFloor: true, flushInline: true,
}

// errUnhashable says that an array or an object stands where an identifier
// belongs. Only the reference dialect reports it.
var errUnhashable = errors.New("an array or an object is no identifier")

// foreign marks the identifiers of the reference dialect that are no strings; the
// rest is their JSON text. No identifier in a URL contains a zero byte.
const foreign = "\x00"

// id converts a JSON value to an identifier. ok is false when it teaches nothing.
func (d *dialect) id(v any) (id string, ok bool, err error) {
	s, isString := v.(string)
	switch {
	case isString:
		return s, s != "" || d.anyID, nil
	case !d.anyID:
		return "", false, nil
	}
	switch v.(type) {
	case []any, map[string]any:
		return "", false, errUnhashable
	}
	return d.value(v), true, nil
}

// value writes any JSON value as a string: the organization of a cache entry may
// be of any type in the reference dialect.
func (d *dialect) value(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case float64:
		return foreign + strconv.FormatFloat(v, 'g', -1, 64)
	}
	text, err := json.Marshal(v)
	if err != nil { // nothing that a JSON decoder returns does this
		return ""
	}
	return foreign + string(text)
}

// usable tells whether an identifier names anything: the truth value of Python.
func (d *dialect) usable(id string) bool {
	switch id {
	case "", foreign + "null", foreign + "0", foreign + "false", foreign + "[]", foreign + "{}":
		return false
	}
	return true
}

// hashable tells whether an organization can be the key of a bucket.
func (d *dialect) hashable(id string) bool {
	return !strings.HasPrefix(id, foreign+"[") && !strings.HasPrefix(id, foreign+"{")
}

// jsonOf is the inverse of value: the JSON text of an identifier.
func (d *dialect) jsonOf(id string) json.RawMessage {
	if text, ok := strings.CutPrefix(id, foreign); ok && d.anyID {
		return json.RawMessage(text)
	}
	text, err := json.Marshal(id)
	if err != nil { // strings always marshal
		return json.RawMessage("null")
	}
	return text
}

// serialShape is the vendor's: four characters of A-Z and 0-9 in three groups, the
// first beginning with Q. The published sequences shorten it to two groups, so two
// are accepted as well.
var serialShape = regexp.MustCompile(`^Q[0-9A-Z]{3}(-[0-9A-Z]{4}){1,2}$`)

// teachesSerial tells whether what follows /devices/ in a URL may be learned. Paths
// like /organizations/{id}/devices/statuses are endpoints, not devices.
func (d *dialect) teachesSerial(id string) bool {
	return d.anySerial || serialShape.MatchString(id)
}
