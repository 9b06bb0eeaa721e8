// Package replay feeds recorded requests through the engine and reports what it makes of them.
//
// Run reads a journal once, in order of time. As recorded, every row is a grant at its instant and a settlement when its response
// had arrived; the report tells, for each quota and window, what was used, where it led, and which responses contradict the
// documents. With Options.Enforce the rows are arrivals instead, in virtual time, and the report tells what the engine would have
// let through. Several sides, such as documents before and after a change, are fed from one reading.
//
// The package is pure but for the reader that it is given: instants come from the rows, and the same rows and documents make the
// same report.
package replay
