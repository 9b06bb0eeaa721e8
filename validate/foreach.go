package validate

// maxForEachDepth is the length of a forEach chain above a job. Vendors nest their resources three or four deep.
const maxForEachDepth = 16

// cutChains takes the parents of jobs whose chain of forEach leads back to them, or is too long, and marks them: nobody else must
// walk in circles, or pay for the square of a chain. Each job is visited once.
func cutChains(jobs []*Job) {
	depth := make(map[*Job]int, len(jobs)) // 0 while on the path that is walked, then the chain's length plus 1
	for _, j := range jobs {
		var path []*Job
		up := j
		for ; up != nil; up = up.Parent {
			if _, seen := depth[up]; seen {
				break
			}
			depth[up] = 0
			path = append(path, up)
		}
		if up != nil && depth[up] == 0 {
			for i := len(path) - 1; i >= 0; i-- {
				path[i].InCycle = true
				if path[i] == up {
					break
				}
			}
		}
		for i := len(path) - 1; i >= 0; i-- {
			below := path[i]
			below.TooDeep = !below.InCycle && below.Parent != nil && depth[below.Parent] > maxForEachDepth
			if below.InCycle || below.TooDeep {
				below.Parent = nil
			}
			depth[below] = 1
			if below.Parent != nil {
				depth[below] = depth[below.Parent] + 1
			}
		}
	}
}
