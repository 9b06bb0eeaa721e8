package main

import (
	"os"
	"syscall"
)

// peakBytes is the most memory that a process held at once.
func peakBytes(p *os.ProcessState) int64 {
	usage, ok := p.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	return usage.Maxrss << 10 // in KiB
}
