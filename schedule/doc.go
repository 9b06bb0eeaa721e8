// Package schedule decides which run of which instance starts when, and what a run sends next. The daemon and the simulation share
// it, so that what is simulated is what runs.
//
// It is pure: instants, answers and random numbers are arguments, nanoseconds since the Unix epoch where nothing else is said. A
// Schedule holds the instances of all jobs and the interval that each job has; a Run is one run of an instance, and says after
// each answer whether there is another page, another attempt, or nothing more; a Pager finds the next page in an answer; a History
// remembers what the last runs took, for the next plan. None is safe for use by several goroutines at once.
package schedule
