// Package disktest has media of a few megabytes that tests can really fill, on systems that have such.
package disktest
