package simulate

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"
)

// maker makes the values of one answer. The same seed and path give the same values, in every process.
type maker struct {
	seed uint64
	path string // of the request, with its variables
	page page
	// paged is the list that only the page's part is made of.
	paged *shape
}

// page is a part of a list.
type page struct {
	from, to, total, size int64
	// nextURL is where the next part is, "" behind the last; cursor names it.
	nextURL, cursor string
}

func (p page) more() bool { return p.to < p.total }

// nestedItems is how many elements lists within items have.
const nestedItems = 2

// hash is stable: FNV-1a with the finaliser of MurmurHash3.
func (m *maker) hash(place string) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d %s %s", m.seed, m.path, place) // never fails
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	return x ^ x>>33
}

// value makes a value of a shape. name is what it is called, place where it stands.
func (m *maker) value(s *shape, name, place string, index int64) any {
	if s.role != noRole {
		return m.roleValue(s.role)
	}
	switch s.kind {
	case object:
		out := make(map[string]any, len(s.fields))
		for _, field := range s.names {
			out[field] = m.value(s.fields[field], field, place+"."+field, index)
		}
		return out
	case list:
		from, to := int64(0), int64(nestedItems)
		if s == m.paged {
			from, to = m.page.from, m.page.to
		}
		out := make([]any, 0, max(0, to-from))
		for i := from; i < to; i++ {
			out = append(out, m.value(s.item(), strings.TrimSuffix(name, "s"), fmt.Sprintf("%s[%d]", place, i), i))
		}
		return out
	}
	h := m.hash(place)
	if n := uint64(len(s.prices)); n > 0 {
		return s.prices[h%n]
	}
	if len(s.choices) > 0 {
		// Mostly the value that is asked for; an answer in which all things are up shows nothing.
		if h%8 != 0 {
			return s.choices[int(h>>32)%len(s.choices)]
		}
	}
	switch s.kind {
	case number:
		return int64(h % 1000)
	case truth:
		return h%4 != 0
	}
	return m.word(name, h, index)
}

func (m *maker) roleValue(r role) any {
	p := m.page
	switch r {
	case cursorRole:
		if !p.more() {
			return nil
		}
		return p.cursor
	case urlRole:
		if !p.more() {
			return nil
		}
		return p.nextURL
	case moreRole:
		return p.more()
	case totalRole:
		return p.total
	case pagesRole:
		return max(1, ceilDiv(p.total, max(1, p.size)))
	case pageRole:
		return p.from/max(1, p.size) + 1
	case offsetRole:
		if !p.more() {
			return nil
		}
		return p.to
	}
	return m.secret("session")
}

// secret is a token that the vendor hands out.
func (m *maker) secret(what string) string { return fmt.Sprintf("%s-%016x", what, m.hash(what)) }

// made is an instant for all time stamps to be near to, so that data do not change from day to day.
var made = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// word makes a text that looks like what its name says.
func (m *maker) word(name string, h uint64, index int64) any {
	lower := strings.ToLower(name)
	has := func(words ...string) bool {
		for _, word := range words {
			if strings.Contains(lower, word) {
				return true
			}
		}
		return false
	}
	switch {
	case lower == "id" || strings.HasSuffix(name, "Id") || strings.HasSuffix(name, "ID") || strings.HasSuffix(lower, "_id") || has("uuid", "key"):
		// Unique within the list: the index is a part of it.
		return strconv.FormatUint(100+m.hash("list "+name)%900, 10) + fmt.Sprintf("%06d", index+1)
	case has("serial"):
		return fmt.Sprintf("Q2%02X-%04X-%04X", byte(h>>40), uint16(h>>16), uint16(index+1))
	case has("mac"):
		return fmt.Sprintf("02:%02x:%02x:%02x:%02x:%02x", byte(h>>32), byte(h>>24), byte(h>>16), byte(index>>8), byte(index))
	case lower == "ip" || has("address", "_ip", "lanip", "host"):
		return fmt.Sprintf("10.%d.%d.%d", byte(h>>16), byte(index>>8), byte(index))
	case has("email"):
		return fmt.Sprintf("user%d@example.com", index+1)
	case has("url", "link", "href"):
		return fmt.Sprintf("https://example.com/%d", index+1)
	case has("status", "state"):
		return []string{"online", "online", "online", "offline", "alerting"}[h%5]
	case has("model", "product"):
		return []string{"MR46", "MS120-8", "MX67", "MV12"}[h%4]
	case has("version", "firmware"):
		return fmt.Sprintf("%d.%d.%d", 8+h%4, (h>>8)%10, (h>>16)%10)
	case has("time", "date", "seen", "_at", "timestamp") || strings.HasSuffix(name, "At"):
		return made.Add(time.Duration(h%(300*24*3600)) * time.Second).Format(time.RFC3339)
	case has("count", "total", "number", "usage", "percent", "bytes", "latency", "uptime", "score"):
		return int64(h % 1000)
	case has("enabled", "active", "is_", "has_"):
		return h%4 != 0
	}
	word := strings.TrimSuffix(strings.TrimSuffix(strings.ReplaceAll(lower, "_", "-"), "-name"), "name")
	if word == "" {
		word = m.thing()
	}
	return fmt.Sprintf("%s-%d", word, index+1)
}

// thing is what the items of a path are: /organizations/1/networks lists networks.
func (m *maker) thing() string {
	parts := strings.Split(strings.Trim(m.path, "/"), "/")
	last := strings.TrimSuffix(parts[len(parts)-1], "s")
	if last == "" {
		return "item"
	}
	return last
}
