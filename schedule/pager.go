package schedule

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	"github.com/tapyr/tapyr/expr"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
)

// defaultMaxPages ends a run that would never end.
const defaultMaxPages = 1000

// Paging is how the pages of a job follow each other, compiled. It is not changed, and may be used by many runs at once.
type Paging struct {
	declared *schema.Pagination
	items    *expr.Program // nil: the response itself, or its only list
	follow   *expr.Program // cursor or next
	maxPages int
}

// Pager follows the pages of one run.
type Pager struct {
	*Paging

	page  int   // of the page just read, from 1
	taken int64 // items of all pages so far
	seen  map[string]bool
}

// Answer is what a pager needs to know of a page.
type Answer struct {
	// URL is where the page came from.
	URL *url.URL
	// Body is decoded by expr.DecodeJSON. Headers have lower-case names; they may be nil where NeedsHeaders says so.
	Body    any
	Headers map[string]string
	// Items are the page's, where the caller has asked Items for them already; nil where Next is to look for them.
	Items []any
}

// RepeatedPageError says that a vendor named the same next page twice: following it would never end.
type RepeatedPageError struct {
	// Kind is cursor or link, Value what was repeated, Page the number of the page that repeated it.
	Kind, Value string
	Page        int
}

// Error quotes the repeated value.
func (e *RepeatedPageError) Error() string {
	return fmt.Sprintf("page %d names the %s %.200q a second time: the pages go round in circles", e.Page, e.Kind, e.Value)
}

// NewPager begins a run of a job that has only this one. The error is that of NewPaging.
func NewPager(j *validate.Job) (*Pager, error) {
	p, err := NewPaging(j)
	if err != nil {
		return nil, err
	}
	return p.Begin(), nil
}

// Begin begins a run.
func (p *Paging) Begin() *Pager { return &Pager{Paging: p, seen: make(map[string]bool)} }

// NeedsHeaders tells whether the way to the next page goes by an answer's headers.
func (p *Paging) NeedsHeaders() bool {
	return p.follow != nil || p.declared != nil && p.declared.Type == "link_header"
}

// NewPaging reads how a job's pages follow each other. The error is that of an expression that does not compile, which a valid
// configuration has not.
func NewPaging(j *validate.Job) (*Paging, error) {
	p := &Paging{declared: PagesOf(j), maxPages: defaultMaxPages}
	d := p.declared
	if d == nil {
		return p, nil
	}
	if d.MaxPages != nil {
		p.maxPages = *d.MaxPages
	}
	var err error
	if d.Items != "" {
		if p.items, err = expr.PageItems.Compile(d.Items); err != nil {
			return nil, err
		}
	}
	switch d.Type {
	case "cursor":
		p.follow, err = expr.PageCursor.Compile(d.Cursor)
	case "expression":
		p.follow, err = expr.PageNext.Compile(d.Next)
	}
	return p, err
}

// First adds to a URL what asks for the first page.
func (p *Pager) First(u *url.URL) *url.URL {
	d := p.declared
	if d == nil {
		return u
	}
	set := map[string]string{}
	if d.LimitParam != "" && d.Limit != nil {
		set[d.LimitParam] = strconv.Itoa(*d.Limit)
	}
	if d.Type == "page" {
		set[d.PageParam] = strconv.Itoa(p.firstPage())
	}
	if d.Type == "offset" {
		set[d.OffsetParam] = "0"
	}
	return withQuery(u, set)
}

func (p *Pager) firstPage() int {
	if p.declared.FirstPage != nil {
		return *p.declared.FirstPage
	}
	return 1
}

// withQuery is a URL with some parameters replaced.
func withQuery(u *url.URL, set map[string]string) *url.URL {
	next := *u
	query := next.Query()
	for name, value := range set {
		if name != "" {
			query.Set(name, value)
		}
	}
	next.RawQuery = query.Encode()
	return &next
}

// Items of a page: the list that the pagination names, else the body itself or its only list. ok is false where there is none.
func (p *Pager) Items(ctx context.Context, body any) (items []any, ok bool, err error) {
	if p.items != nil {
		items, err = p.items.EvalList(ctx, map[string]any{"response": body})
		return items, err == nil, err
	}
	switch b := body.(type) {
	case []any:
		return b, true, nil
	case map[string]any:
		lists := 0
		for _, value := range b {
			if list, isList := value.([]any); isList {
				items, lists = list, lists+1
			}
		}
		return items, lists == 1, nil
	}
	return nil, false, nil
}

// Next is where the next page is; nil where the page just read was the last. cut tells that there would be another, but maxPages
// has been reached. The error is a *RepeatedPageError, a *LinkError, or an *expr.EvalError where the page has not what an expression asks for.
func (p *Pager) Next(ctx context.Context, a Answer) (next *url.URL, cut bool, err error) {
	p.page++
	d := p.declared
	if d == nil {
		return nil, false, nil
	}
	switch d.Type {
	case "offset", "page":
		next, err = p.byNumber(ctx, a)
	case "cursor":
		next, err = p.byCursor(ctx, a)
	case "link_header":
		var reference string
		if reference, err = nextLink(a.Headers["link"]); err == nil {
			next, err = p.byLink(a.URL, reference)
		}
	case "expression":
		next, err = p.byExpression(ctx, a)
	}
	if err == nil && next != nil && p.page >= p.maxPages {
		return nil, true, nil
	}
	return next, false, err
}

// byNumber counts on while pages are full; without a declared size, while they are not empty.
func (p *Pager) byNumber(ctx context.Context, a Answer) (*url.URL, error) {
	items, ok, err := a.Items, true, error(nil)
	if items == nil {
		items, ok, err = p.Items(ctx, a.Body)
	}
	if err != nil || !ok || len(items) == 0 {
		return nil, err
	}
	p.taken += int64(len(items))
	if size := p.declared.Limit; size != nil && len(items) < *size {
		return nil, nil
	}
	if p.declared.Type == "offset" {
		return withQuery(a.URL, map[string]string{p.declared.OffsetParam: strconv.FormatInt(p.taken, 10)}), nil
	}
	return withQuery(a.URL, map[string]string{p.declared.PageParam: strconv.Itoa(p.firstPage() + p.page)}), nil
}

func (p *Pager) byCursor(ctx context.Context, a Answer) (*url.URL, error) {
	cursor, err := p.follow.EvalText(ctx, p.vars(a))
	if err != nil || cursor == "" {
		return nil, err
	}
	if err := p.once("cursor", cursor); err != nil {
		return nil, err
	}
	return withQuery(a.URL, map[string]string{p.declared.CursorParam: cursor}), nil
}

func (p *Pager) vars(a Answer) map[string]any {
	return map[string]any{"response": a.Body, "headers": a.Headers, "page": p.page}
}

// byLink follows a reference, relative to where it was found.
func (p *Pager) byLink(from *url.URL, reference string) (*url.URL, error) {
	if reference == "" {
		return nil, nil
	}
	next, err := from.Parse(reference)
	if err != nil {
		return nil, err
	}
	if next.String() == from.String() {
		return nil, &RepeatedPageError{"link", reference, p.page}
	}
	return next, p.once("link", next.String())
}

func (p *Pager) byExpression(ctx context.Context, a Answer) (*url.URL, error) {
	value, err := p.follow.Eval(ctx, p.vars(a))
	if err != nil || value == nil {
		return nil, err
	}
	switch v := value.(type) {
	case string:
		return p.byLink(a.URL, v)
	case map[string]any:
		set := make(map[string]string, len(v))
		for name, one := range v {
			set[name] = fmt.Sprint(one)
		}
		next := withQuery(a.URL, set)
		if len(set) == 0 {
			return nil, nil
		}
		return next, p.once("link", next.String())
	}
	return nil, fmt.Errorf("pagination.next gave %.200s: want a URL, a map of query parameters, or null", fmt.Sprint(value))
}

// once refuses what was there before.
func (p *Pager) once(kind, value string) error {
	if p.seen[value] {
		return &RepeatedPageError{kind, value, p.page}
	}
	p.seen[value] = true
	return nil
}
