package plan

import (
	"math"
	"sort"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize/convex/lp"
	"pgregory.net/rapid"

	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
)

// randomProblem draws a small problem: jobs of all classes on some of a few keys, budgets around what is asked.
func randomProblem(t *rapid.T) *problem {
	p := &problem{in: Input{Config: &validate.Config{}}}
	p.in.Config.Settings.MaxStretch = schema.DecimalOf(rapid.SampledFrom([]float64{1, 2, 5, 12}).Draw(t, "maxStretch"))
	spec := &schema.Limit{Name: "q", Kind: schema.KindQuota}
	limit := &validate.Limit{Limit: match.Compile(spec, 0)}
	for range rapid.IntRange(1, 5).Draw(t, "keys") {
		p.keys = append(p.keys, &keyLoad{limit: limit, keys: 1, figures: budget{horizonSeconds: 1}})
	}
	asked := make([]float64, len(p.keys))
	for range rapid.IntRange(1, 8).Draw(t, "jobs") {
		j := &jobLoad{
			job: &validate.Job{}, desiredSeconds: 1, class: class(rapid.IntRange(0, 3).Draw(t, "class")),
			hi: rapid.SampledFrom([]float64{1, 1, 1, 0.7, 0.4, 0.05}).Draw(t, "hi"),
		}
		for i, k := range p.keys {
			if !rapid.Bool().Draw(t, "uses") {
				continue
			}
			demand := float64(rapid.IntRange(1, 40).Draw(t, "demand"))
			asked[i] += demand * j.hi
			j.uses = append(j.uses, use{key: k, perRun: demand, demand: demand})
			k.members = append(k.members, member{job: j, demand: demand, perRun: demand})
		}
		p.jobs = append(p.jobs, j)
	}
	for i, k := range p.keys {
		k.figures.units = asked[i] * rapid.SampledFrom([]float64{0, 0.02, 0.3, 0.5, 0.8, 0.95, 1, 1.4}).Draw(t, "budget")
	}
	return p
}

// passes runs both passes on a problem that has its budgets and floors.
func (p *problem) passes(reclaim bool) {
	for _, j := range p.jobs {
		j.lo, j.x = j.hi, j.hi
	}
	s := p.newSolver()
	for _, k := range p.keys {
		s.firstPass(k)
	}
	for _, j := range p.jobs {
		j.x = j.lo
	}
	if reclaim {
		p.secondPass()
	}
}

func (k *keyLoad) sum() float64 {
	sum := 0.0
	for _, m := range k.members {
		sum += m.demand * m.job.x
	}
	return sum
}

// TestSecondPassIsMaxMin holds the second pass against its definition: class by class, a sequence of linear programs that raise
// the smallest level, fix the jobs that are stuck, and go on.
func TestSecondPassIsMaxMin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for range 10 { // what can go wrong takes several jobs and keys to meet: a hundred problems are too few
			p := randomProblem(t)
			p.passes(false)
			want := maxMin(t, p)
			p.secondPass()
			for i, j := range p.jobs {
				if math.Abs(j.x-want[i]) > 1e-6 {
					t.Fatalf("job %d of class %d (lo %v, hi %v) has level %v, the linear programs give %v", i, j.class, j.lo, j.hi, j.x, want[i])
				}
			}
		}
	})
}

// maxMin finds the levels by linear programs.
func maxMin(t *rapid.T, p *problem) []float64 {
	x := make([]float64, len(p.jobs))
	for i, j := range p.jobs {
		x[i] = j.lo
	}
	index := make(map[*jobLoad]int)
	for i, j := range p.jobs {
		index[j] = i
	}
	for c := class(1); c <= 3; c++ {
		var free []int
		for i, j := range p.jobs {
			if j.class == c {
				free = append(free, i)
			}
		}
		for len(free) > 0 {
			level := highest(t, p, index, x, free, -1, 0)
			var still []int
			for _, i := range free {
				if most := highest(t, p, index, x, free, i, level); most > max(level, p.jobs[i].lo)+1e-9 {
					still = append(still, i)
					continue
				}
				x[i] = min(max(level, p.jobs[i].lo), p.jobs[i].hi)
			}
			if len(still) == len(free) {
				t.Fatalf("the linear programs fix no job at level %v", level)
			}
			free = still
		}
	}
	return x
}

// highest solves one linear program. The free jobs' levels lie in [lo, hi] and are at least the common level t (which stops at
// hi); the others stay at x; no key may exceed its budget, or what it has already where that is more. With alone < 0 it
// maximises t, else the level of that job with t at least level.
func highest(t *rapid.T, p *problem, index map[*jobLoad]int, x []float64, free []int, alone int, level float64) float64 {
	n := len(free) + 1 // the levels, then t
	column := make(map[int]int)
	for c, i := range free {
		column[i] = c
	}
	var rows [][]float64
	var right []float64
	atMost := func(row []float64, bound float64) { rows, right = append(rows, row), append(right, bound) }
	for c, i := range free {
		j := p.jobs[i]
		high, low, above := make([]float64, n), make([]float64, n), make([]float64, n)
		high[c], low[c] = 1, -1
		atMost(high, j.hi)
		atMost(low, -j.lo)
		if j.hi > level+1e-12 || alone < 0 { // t <= level of the job
			above[c], above[n-1] = -1, 1
			atMost(above, 0)
		}
	}
	one := make([]float64, n)
	one[n-1] = 1
	atMost(one, 1)
	for _, k := range p.keys {
		row := make([]float64, n)
		room, now := k.figures.units, 0.0
		for _, m := range k.members {
			i := index[m.job]
			if c, ok := column[i]; ok {
				row[c] = m.demand
				now += m.demand * p.jobs[i].lo
				continue
			}
			room -= m.demand * x[i]
		}
		atMost(row, max(room, now))
	}
	goal := make([]float64, n)
	goal[n-1] = -1
	if alone >= 0 {
		goal[n-1], goal[column[alone]] = 0, -1
		atLeast := make([]float64, n)
		atLeast[n-1] = -1
		atMost(atLeast, -level)
	}
	g := mat.NewDense(len(rows), n, nil)
	for i, row := range rows {
		g.SetRow(i, row)
	}
	c, a, b := lp.Convert(goal, g, right, nil, nil)
	best, _, err := lp.Simplex(c, a, b, 1e-10, nil)
	if err != nil {
		t.Skipf("simplex: %v", err)
	}
	return -best
}

// TestPassesKeepBudgets: no key that can be kept is over its budget, no job ends worse after the second pass, and every level
// stays within its bounds.
func TestPassesKeepBudgets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := randomProblem(t)
		p.passes(false)
		first := make(map[*jobLoad]float64)
		over := make(map[*keyLoad]float64)
		for _, j := range p.jobs {
			first[j] = j.x
		}
		for _, k := range p.keys {
			over[k] = max(k.figures.units, k.sum())
			if sum := k.sum(); sum > k.figures.units*(1+1e-9)+1e-9 && !atTheLimit(k, 1/p.in.Config.Settings.MaxStretch.Float64()) {
				t.Fatalf("a key is over its budget (%v of %v) and has room to give", sum, k.figures.units)
			}
		}
		p.secondPass()
		for _, j := range p.jobs {
			if j.x < first[j]-1e-12 || j.x > j.hi+1e-12 {
				t.Fatalf("a level went from %v to %v, hi %v", first[j], j.x, j.hi)
			}
			if j.class == 0 && j.x != j.hi {
				t.Fatalf("a critical job is at %v, not at %v", j.x, j.hi)
			}
		}
		for _, k := range p.keys {
			if k.sum() > over[k]*(1+1e-9)+1e-9 {
				t.Fatalf("the second pass took a key from %v to %v", over[k], k.sum())
			}
		}
	})
}

// atTheLimit tells whether all jobs on a key have given all that they may.
func atTheLimit(k *keyLoad, lowest float64) bool {
	for _, m := range k.members {
		if m.job.class > 0 && m.job.x > min(m.job.hi, lowest)+1e-9 {
			return false
		}
	}
	return true
}

// TestCommonLevelAgreesWithBisection holds the sorted search for a class's level against a dumb one.
func TestCommonLevelAgreesWithBisection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var members []member
		total := 0.0
		for range rapid.IntRange(1, 10).Draw(t, "n") {
			j := &jobLoad{hi: rapid.Float64Range(0.01, 1).Draw(t, "hi")}
			m := member{job: j, demand: rapid.Float64Range(0.1, 100).Draw(t, "demand")}
			members, total = append(members, m), total+m.demand*j.hi
		}
		free := total * rapid.Float64Range(-0.1, 1.1).Draw(t, "free")
		lowest := rapid.Float64Range(0.01, 1).Draw(t, "lowest")
		level, used := commonLevel(members, free, lowest)
		low, high := lowest, 1.0
		for range 100 {
			if mid := (low + high) / 2; usedAt(members, mid) <= free {
				low = mid
			} else {
				high = mid
			}
		}
		if usedAt(members, 1) <= free {
			low = 1
		}
		if got, want := usedAt(members, level), usedAt(members, low); math.Abs(got-want) > 1e-6*total {
			t.Fatalf("level %v uses %v, bisection finds %v, which uses %v", level, got, low, want)
		}
		if math.Abs(used-usedAt(members, level)) > 1e-9*total {
			t.Fatalf("used is said to be %v, is %v", used, usedAt(members, level))
		}
	})
}

// TestLevelsDoNotDependOnOrder: the same jobs in another order get the same levels.
func TestLevelsDoNotDependOnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := randomProblem(t)
		p.passes(true)
		want := make(map[*jobLoad]float64)
		for _, j := range p.jobs {
			want[j] = j.x
		}
		order := rapid.Permutation(p.jobs).Draw(t, "order")
		p.jobs = order
		for _, k := range p.keys {
			rank := make(map[*jobLoad]int)
			for i, j := range order {
				rank[j] = i
			}
			sort.Slice(k.members, func(a, b int) bool { return rank[k.members[a].job] < rank[k.members[b].job] })
		}
		p.passes(true)
		for _, j := range p.jobs {
			if math.Abs(j.x-want[j]) > 1e-9 {
				t.Fatalf("level %v in one order, %v in another", want[j], j.x)
			}
		}
	})
}
