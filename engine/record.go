package engine

// Ticket names a request that was granted or waits: its place, and how often that place was used before. The zero Ticket names
// none.
type Ticket uint64

// record is a request between its arrival and its release.
type record struct {
	id  uint32
	use uint32
	// state changes only in the become methods.
	state recordState

	prepared *Prepared
	own      Prepared // room for a request that was not prepared
	request  Request  // of own
	room     [2]entry // of own, where its entries are not shared

	arrived, deadline, granted int64
	retry                      bool
	// allowed: the engine would have granted it by itself; false only for what was granted by force.
	allowed bool
	// probes tells for which breakers the request is the probe.
	probes uint8

	next, prev uint32 // in a line of waiters
}

// recordState is where a request stands.
type recordState uint8

const (
	// stateFree: nobody's. From any other by Release, refusal or cancellation.
	stateFree recordState = iota
	// stateWaiting: from free, by Reserve.
	stateWaiting
	// stateFlying: granted. From free or waiting.
	stateFlying
	// stateSettled: its response has been read. From flying, by Settle.
	stateSettled
)

// The bits of record.probes.
const (
	probeAccount = 1 << iota
	probeTarget
)

func (r *record) becomeWaiting() { r.expect(stateFree); r.state = stateWaiting }
func (r *record) becomeFlying() {
	if r.state != stateWaiting {
		r.expect(stateFree)
	}
	r.state = stateFlying
}
func (r *record) becomeSettled() { r.expect(stateFlying); r.state = stateSettled }

// expect asserts where a change of state comes from.
func (r *record) expect(s recordState) {
	if r.state != s {
		panic("engine: a request changes from a state that does not lead there")
	}
}

// newRecord is a free record with nothing in it.
func (e *Engine) newRecord() *record {
	if n := len(e.freeRecords); n > 0 {
		r := e.records[e.freeRecords[n-1]]
		e.freeRecords = e.freeRecords[:n-1]
		return r
	}
	r := &record{id: uint32(len(e.records)), use: 1}
	e.records = append(e.records, r)
	return r
}

// freeRecord takes a record back; tickets that name it are void.
func (e *Engine) freeRecord(r *record) {
	r.state, r.prepared, r.probes = stateFree, nil, 0
	r.use++
	e.freeRecords = append(e.freeRecords, r.id)
}

func (r *record) ticket() Ticket { return Ticket(uint64(r.use)<<32 | uint64(r.id)) }

// find is the record of a ticket, nil where it is over.
func (e *Engine) find(t Ticket) *record {
	id, use := uint32(t), uint32(t>>32)
	if id == 0 || int(id) >= len(e.records) || e.records[id].use != use {
		return nil
	}
	return e.records[id]
}
