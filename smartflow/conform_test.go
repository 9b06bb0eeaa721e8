package smartflow

import ("testing";"os")

func TestPublishedVectors(t *testing.T) {
	for _, f := range []string{"smartflow-vectors.json","smartflow-sequences.json"} {
	data, err := os.ReadFile("../testdata/vectors/"+f)
	if err != nil { t.Fatal(err) }
	r := Conform(f, data)
	t.Log(r.Cases, len(r.Failures))
	for i, f := range r.Failures { if i<30 {t.Error(f)} }
	}
}
