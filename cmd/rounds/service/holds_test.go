package service

import (
	"testing"

	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/poller"
)

// The settings and a pool refuse the same long timeouts.
func TestTheLeastLongTimeoutIsThePools(t *testing.T) {
	if settings.LeastLongTimeout != poller.LeastLongTimeout {
		t.Errorf("%v and %v", settings.LeastLongTimeout, poller.LeastLongTimeout)
	}
}
