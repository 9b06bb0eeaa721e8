package simulate

// event is something that the simulation, not the engine, does at an instant.
type event struct {
	at    int64
	seq   uint64
	actor *actor // its answer arrives, or, with send, its request is asked for
	send  bool
	other func(now int64)
}

// before orders events by instant, then by origin.
func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

// events is a binary heap, the first event on top. container/heap would put each event on Go's heap on its way in and out.
type events []event

func (h *events) push(e event) {
	list := append(*h, e)
	for i := len(list) - 1; i > 0; {
		parent := (i - 1) / 2
		if !list[i].before(&list[parent]) {
			break
		}
		list[i], list[parent] = list[parent], list[i]
		i = parent
	}
	*h = list
}

func (h *events) pop() event {
	list := *h
	first, last := list[0], len(list)-1
	list[0], list[last] = list[last], event{}
	list = list[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			break
		}
		if child+1 < last && list[child+1].before(&list[child]) {
			child++
		}
		if !list[child].before(&list[i]) {
			break
		}
		list[i], list[child] = list[child], list[i]
		i = child
	}
	*h = list
	return first
}
