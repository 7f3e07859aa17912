// Package circulate is the ring.
package circulate
