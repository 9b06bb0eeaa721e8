package web

import (
	"reflect"
	"time"

	"github.com/tapyr/tapyr/daemon"
)

// clean takes secrets out of all texts of a snapshot. The plan is not the receiver's to change: it is cleaned where it is shown.
func (s *server) clean(snapshot *daemon.Snapshot) {
	plan, spend := snapshot.Plan, snapshot.Spend
	snapshot.Plan, snapshot.Spend = nil, nil
	clean(snapshot, s.Redact)
	snapshot.Plan, snapshot.Spend = plan, spend
}

// clean walks a value and redacts every text in it, keys of maps too, and puts every instant into UTC. New fields are covered as
// they come; a list of fields would not be.
func clean(value any, redact func(string) string) {
	cleanValue(reflect.ValueOf(value), redact)
}

var instantType = reflect.TypeFor[time.Time]()

func cleanValue(v reflect.Value, redact func(string) string) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			cleanValue(v.Elem(), redact)
		}
	case reflect.Struct:
		if v.Type() == instantType {
			if v.CanSet() {
				v.Set(reflect.ValueOf(v.Interface().(time.Time).UTC()))
			}
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				cleanValue(v.Field(i), redact)
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			cleanValue(v.Index(i), redact)
		}
	case reflect.Map:
		cleanMap(v, redact)
	case reflect.String:
		if v.CanSet() {
			v.SetString(redact(v.String()))
		}
	}
}

// cleanMap replaces the entries of a map, whose values cannot be changed in place.
func cleanMap(v reflect.Value, redact func(string) string) {
	if v.IsNil() {
		return
	}
	cleaned := reflect.MakeMapWithSize(v.Type(), v.Len())
	for entries := v.MapRange(); entries.Next(); {
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		key.Set(entries.Key())
		value.Set(entries.Value())
		cleanValue(key, redact)
		cleanValue(value, redact)
		cleaned.SetMapIndex(key, value)
	}
	if v.CanSet() {
		v.Set(cleaned)
	}
}
