package daemon

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/tapyr/tapyr/daemon/client"
)

// redacting takes secrets out of log records, whoever has put them there.
type redacting struct {
	next     slog.Handler
	redactor *client.Redactor
}

// Enabled implements slog.Handler.
func (h *redacting) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h *redacting) Handle(ctx context.Context, r slog.Record) error {
	clean := slog.NewRecord(r.Time, r.Level, h.redactor.Text(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(h.clean(a))
		return true
	})
	return h.next.Handle(ctx, clean)
}

// WithAttrs implements slog.Handler.
func (h *redacting) WithAttrs(attrs []slog.Attr) slog.Handler {
	cleaned := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		cleaned[i] = h.clean(a)
	}
	return &redacting{h.next.WithAttrs(cleaned), h.redactor}
}

// WithGroup implements slog.Handler.
func (h *redacting) WithGroup(name string) slog.Handler {
	return &redacting{h.next.WithGroup(name), h.redactor}
}

func (h *redacting) clean(a slog.Attr) slog.Attr {
	value := a.Value.Resolve()
	switch value.Kind() {
	case slog.KindString:
		return slog.String(a.Key, h.redactor.Text(value.String()))
	case slog.KindGroup:
		var attrs []any
		for _, one := range value.Group() {
			attrs = append(attrs, h.clean(one))
		}
		return slog.Group(a.Key, attrs...)
	case slog.KindAny:
		return slog.String(a.Key, h.redactor.Text(fmt.Sprint(value.Any())))
	}
	return slog.Attr{Key: a.Key, Value: value}
}
