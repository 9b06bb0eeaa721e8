package chart

import (
	"fmt"

	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/spend/report"
)

// Spend draws what is reserved and settled of each budget, in percent of its limit.
func Spend(r *report.Report) *Figure {
	var rows []row
	for _, l := range append([]report.Line{r.Account}, r.Capabilities...) {
		name := l.Capability
		if name == "" {
			name = "account"
		}
		used := percentOfLimit(l.Used, l.Limit)
		settled := percentOfLimit(l.Settled, l.Limit)
		usedColor := demandColor
		if used > 100 {
			usedColor = overColor
		}
		rows = append(rows, row{label: name, bars: []bar{
			{used, usedColor, fmt.Sprintf("%s of %s %s", l.Used, l.Limit, r.Unit)},
			{settled, projectedColor, l.Settled.String() + " settled"},
		}})
	}
	p := barPanel(fmt.Sprintf("Spend under %s %s", r.Policy, r.Version), rows, 100)
	p.plot.X.Label.Text = "percent of the limit"
	p.height, p.below = p.height+legendRoom, legendRoom
	p.plot.Legend.Add("reserved and settled", swatch{demandColor})
	p.plot.Legend.Add("settled", swatch{projectedColor})
	return &Figure{width: planWidth, panels: []panel{p}}
}

// percentOfLimit is for drawing alone: amounts are compared exactly elsewhere.
func percentOfLimit(units, limit book.Units) float64 {
	part, err := units.Decimal().Float64()
	whole, err2 := limit.Decimal().Float64()
	if err != nil || err2 != nil || whole <= 0 {
		return 0
	}
	return 100 * part / whole
}
