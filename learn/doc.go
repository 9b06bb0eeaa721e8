// Package learn supplies scope variables that a provider's traffic has told, as learn in a provider document says: which
// organization a network belongs to, when the URL of a request names the network only. It is what smartflow's Learner finds, kept: for
// every account and target apart, as long as it is believed, and in a file between runs.
//
// A Book answers for one provider, and all Books of a Library share one memory, which a Library for new documents takes over. Time
// is an argument. Books are safe for concurrent use; a nil Book, that of a provider without learn, knows nothing and costs nothing.
package learn
