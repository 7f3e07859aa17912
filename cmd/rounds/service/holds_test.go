package service

import (
	"testing"

	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/poller"
)

// What the settings refuse is what a pool refuses.
func TestTheLeastLongTimeoutIsThePools(t *testing.T) {
	if settings.LeastLongTimeout != poller.LeastLongTimeout {
		t.Errorf("%v and %v", settings.LeastLongTimeout, poller.LeastLongTimeout)
	}
}
