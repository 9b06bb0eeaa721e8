package simulate

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// offsetParam is the parameter of links that this vendor makes.
const offsetParam = "pageOffset"

// sizeParams are the names under which clients ask for a page size, where the documents name none.
var sizeParams = []string{"perPage", "per_page", "pageSize", "page_size", "limit", "count", "size", "$top", "maxResults"}

// pageOf finds the part of a list that a request asks for. asked is the request's URL as the client sees it, from which links to the
// next part are made. ok is false for a page that cannot be.
func (r *route) pageOf(asked *url.URL) (p page, ok bool) {
	query := asked.Query()
	p = page{total: r.items, size: r.pageItems}
	if r.pages == nil {
		p.to, p.size = p.total, p.total
		return p, true
	}
	names := sizeParams
	if r.pages.LimitParam != "" {
		names = []string{r.pages.LimitParam}
	}
	for _, name := range names {
		if !query.Has(name) {
			continue
		}
		n, err := strconv.ParseInt(query.Get(name), 10, 64)
		if err != nil || n < 1 {
			return p, false
		}
		p.size = n
		if r.pages.Type != "offset" && r.pages.Type != "page" {
			p.size = min(n, r.pageItems)
		}
		break
	}
	from, ok := r.begin(query, p.size)
	if !ok || from < 0 {
		return p, false
	}
	p.from = min(from, p.total)
	p.to = min(p.from+p.size, p.total)
	if p.more() {
		p.cursor = cursorOf(p.to)
		next := *asked
		query.Set(offsetParam, strconv.FormatInt(p.to, 10))
		next.RawQuery = query.Encode()
		p.nextURL = next.String()
	}
	return p, true
}

// begin is the number of items before the page that a query asks for.
func (r *route) begin(query url.Values, size int64) (from int64, ok bool) {
	parse := func(name string) (int64, bool) {
		if !query.Has(name) {
			return 0, true
		}
		n, err := strconv.ParseInt(query.Get(name), 10, 64)
		return n, err == nil
	}
	switch d := r.pages; d.Type {
	case "offset":
		return parse(d.OffsetParam)
	case "page":
		first := int64(1)
		if d.FirstPage != nil {
			first = int64(*d.FirstPage)
		}
		if !query.Has(d.PageParam) {
			return 0, true
		}
		n, ok := parse(d.PageParam)
		return (n - first) * size, ok && n >= first
	case "cursor":
		if !query.Has(d.CursorParam) {
			return 0, true
		}
		return cursorFrom(query.Get(d.CursorParam))
	case "expression":
		return r.beginByKeys(query, size)
	}
	return parse(offsetParam)
}

// beginByKeys looks for what an expression asks for the next page with: a cursor of ours, else a number whose meaning its name tells.
func (r *route) beginByKeys(query url.Values, size int64) (int64, bool) {
	if query.Has(offsetParam) {
		n, err := strconv.ParseInt(query.Get(offsetParam), 10, 64)
		return n, err == nil
	}
	for _, key := range r.nextKeys {
		if !query.Has(key) {
			continue
		}
		value := query.Get(key)
		if n, ok := cursorFrom(value); ok {
			return n, true
		}
		n, err := strconv.ParseFloat(value, 64) // CEL's numbers may be written as 2.0
		switch {
		case err != nil:
			return 0, false
		case offsetWord.MatchString(key):
			return int64(n), true
		case pageWord.MatchString(key):
			return (int64(n) - 1) * size, true
		}
	}
	return 0, true
}

// cursorOf is opaque, as cursors are.
func cursorOf(offset int64) string {
	return base64.RawURLEncoding.EncodeToString([]byte("offset:" + strconv.FormatInt(offset, 10)))
}

func cursorFrom(cursor string) (offset int64, ok bool) {
	data, err := base64.RawURLEncoding.DecodeString(cursor)
	digits, ours := strings.CutPrefix(string(data), "offset:")
	if err != nil || !ours {
		return 0, false
	}
	offset, err = strconv.ParseInt(digits, 10, 64)
	return offset, err == nil
}

// linkHeader is the Link header of a page (RFC 8288).
func linkHeader(p page, asked *url.URL) string {
	links := []string{fmt.Sprintf("<%s>; rel=first", stripped(asked, 0))}
	if p.from > 0 {
		links = append(links, fmt.Sprintf("<%s>; rel=prev", stripped(asked, max(0, p.from-p.size))))
	}
	if p.more() {
		links = append(links, fmt.Sprintf("<%s>; rel=next", p.nextURL))
	}
	return strings.Join(links, ", ")
}

// stripped is a link to the page that begins at an offset.
func stripped(asked *url.URL, offset int64) string {
	u := *asked
	query := u.Query()
	query.Del(offsetParam)
	if offset > 0 {
		query.Set(offsetParam, strconv.FormatInt(offset, 10))
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// paramNames of a query, for messages.
func paramNames(query url.Values) []string {
	names := make([]string, 0, len(query))
	for name := range query {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
