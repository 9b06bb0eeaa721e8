package validate

import (
	"strings"

	"github.com/tapyr/tapyr/schema"
)

var ruleOutputFile = &Rule{
	Name:     "output-file",
	Severity: schema.SeverityError,
	Summary:  "an output must name a file, whose pattern has %Y, %m, %d and %H only",
	Why: "The placeholders are the run's year, month, day and hour in UTC; write %% for a percent sign. Two jobs that write to one file " +
		"mix their lines: that is a warning.",
	Wrong: exampleJob(`
request: { endpoint: /devices }
outputs: [{ jsonl: { path: out/devices-%y%m%d.jsonl } }]`),
	Right: exampleJob(`
request: { endpoint: /devices }
outputs: [{ jsonl: { path: out/devices-%Y%m%d.jsonl } }]`),
	check: func(f *finder) {
		writers := make(map[string]string)
		f.config.eachFields(func(doc *schema.Document, path string, fields *schema.JobFields) {
			for i, output := range fields.Outputs {
				at := index(path+".outputs", i)
				switch {
				case output.JSONL == nil:
					f.at(doc, at+".jsonl", "this output has no target; write jsonl: { path: out/NAME.jsonl }")
				case output.JSONL.Path == "":
				default:
					f.outputPath(doc, at+".jsonl.path", output.JSONL.Path)
				}
			}
		})
		for _, j := range f.config.Jobs {
			for i, output := range j.Spec.Outputs {
				if output.JSONL == nil || output.JSONL.Path == "" {
					continue
				}
				if other := writers[output.JSONL.Path]; other != "" && other != j.Name {
					doc, path := j.place(index("spec.outputs", i) + ".jsonl.path")
					f.warn(doc, path, "jobs %q and %q both write to %q", other, j.Name, output.JSONL.Path)
				}
				writers[output.JSONL.Path] = j.Name
			}
		}
	},
}

func (f *finder) outputPath(doc *schema.Document, path, pattern string) {
	for rest := pattern; ; {
		_, after, found := strings.Cut(rest, "%")
		if !found {
			break
		}
		if after == "" || !strings.ContainsRune("YmdH%", rune(after[0])) {
			f.at(doc, path, "path %q has an unknown placeholder %q; want %%Y, %%m, %%d, %%H, or %%%% for a percent sign", pattern, "%"+firstRune(after))
			return
		}
		rest = after[1:]
	}
	if strings.HasSuffix(pattern, "/") {
		f.at(doc, path, "path %q is a folder; name a file in it", pattern)
	}
}

func firstRune(text string) string {
	for _, r := range text {
		return string(r)
	}
	return ""
}
