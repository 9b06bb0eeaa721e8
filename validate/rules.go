package validate

// rules are all rules, in the order of their names.
var rules = []*Rule{
	ruleForEachCycle,
	ruleUnresolvedReference,
}
