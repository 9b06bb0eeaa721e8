package chain

import "iter"

// bareNames are the members of a bare entry, besides its hashes.
var bareNames = [...]string{"capability", "disposition", "event_id", "policy_version", "reserved_units", "route"}

// Bare is the chain of the admissions alone, each with nothing but the decision's seven members: event_id, capability,
// disposition, route, reserved_units, policy_version and previous_hash. Its hashes are its own. It is the form in which other
// implementations can be compared; an admission that was pruned has no bare form and is left out.
func Bare(entries iter.Seq2[Entry, error]) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		var head Head
		for e, err := range entries {
			if err != nil {
				yield(Entry{}, err)
				return
			}
			if e.Body == nil || e.Text("kind") != "admission" {
				continue
			}
			bare, err := bareOf(head, e)
			if err == nil {
				head = bare.Head()
			}
			if !yield(bare, err) || err != nil {
				return
			}
		}
	}
}

func bareOf(head Head, e Entry) (Entry, error) {
	members, err := splitObject(e.Body)
	if err != nil {
		return Entry{}, err
	}
	var fields []Field
	for _, m := range members {
		for _, name := range bareNames {
			if m.name == name {
				fields = append(fields, Field{Name: name, Literal: string(m.value)})
			}
		}
	}
	return Seal(head, true, fields...)
}
