// Package simulate rehearses a configuration before anything is sent to a vendor.
//
// Run drives the planner, the scheduler, the engine and a vendor's limits in virtual time, in one goroutine: the same Scenario
// gives the same Report, to the byte, and a day of ten thousand requests an hour takes less than a second. Hunt runs many
// scenarios with random Faults and looks for one that breaks an invariant.
//
// Server is the vendor over HTTP: routes from the jobs' endpoints, data made from a seed that the jobs' expressions find their
// fields in, pages, credentials, limits with their headers as declared, and the same faults. Any client can be pointed at it.
//
// Both ask engine.Enforcer, which counts as a vendor does: what a simulated vendor refuses, a real one with the declared limits
// would refuse.
package simulate
