package plan

import (
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize/convex/lp"
	"pgregory.net/rapid"
)

// BenchmarkServedAgainstLP reports which part of the units that a linear program could serve at the most the plan serves, on
// random problems. A fair plan serves less: a linear program starves jobs that use several keys. It is a figure, not a bar.
func BenchmarkServedAgainstLP(b *testing.B) {
	problems := rapid.Custom(randomProblem)
	served, most, n := 0.0, 0.0, 0
	for seed := 1; b.Loop(); seed++ {
		p := problems.Example(seed)
		p.passes(true)
		ours := 0.0
		for _, k := range p.keys {
			if k.sum() > k.figures.units*(1+1e-9) {
				ours = -1 // infeasible: there is nothing to compare
			}
		}
		best, ok := mostServed(p)
		if ours < 0 || !ok || best <= 0 {
			continue
		}
		for _, j := range p.jobs {
			for _, u := range j.uses {
				ours += u.demand * j.x
			}
		}
		served, most, n = served+ours, most+best, n+1
	}
	if n > 0 {
		b.ReportMetric(served/most, "served/LP")
	}
}

// mostServed maximises the units of all jobs under the keys' budgets and the jobs' bounds, fairness apart.
func mostServed(p *problem) (units float64, ok bool) {
	n := len(p.jobs)
	index := make(map[*jobLoad]int, n)
	goal := make([]float64, n)
	var rows [][]float64
	var right []float64
	for i, j := range p.jobs {
		index[j] = i
		row := make([]float64, n)
		row[i] = 1
		rows, right = append(rows, row), append(right, j.hi)
		for _, u := range j.uses {
			goal[i] -= u.demand
		}
	}
	for _, k := range p.keys {
		row := make([]float64, n)
		for _, m := range k.members {
			row[index[m.job]] += m.demand
		}
		rows, right = append(rows, row), append(right, k.figures.units)
	}
	g := mat.NewDense(len(rows), n, nil)
	for i, row := range rows {
		g.SetRow(i, row)
	}
	// All variables are at least 0: the standard form needs only a slack for each row.
	a := mat.NewDense(len(rows), n+len(rows), nil)
	a.Slice(0, len(rows), 0, n).(*mat.Dense).Copy(g)
	for i := range rows {
		a.Set(i, n+i, 1)
	}
	costs := make([]float64, n+len(rows)) // slacks cost nothing
	copy(costs, goal)
	best, _, err := lp.Simplex(costs, a, right, 1e-10, nil)
	return -best, err == nil
}
