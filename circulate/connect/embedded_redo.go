package connect

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2/server"
)

// Redo does what a log has, at the moment it names, in a server without a log. Nobody else
// may use the server until the clock is released.
func (e *Embedded) Redo(at time.Time, effects [][]string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	srv, err := e.started()
	if err != nil {
		return err
	}
	if e.redoing == nil {
		e.redoing = newShadow()
	}
	e.clock.hold(at)
	nobody := &server.Peer{Ctx: e.redoing.peer.Ctx}
	if len(effects) == 0 { // what ends at this moment ends
		effects = [][]string{{"EXISTS", ""}}
	}
	for _, effect := range effects {
		reply := e.redoing.do(srv, nobody, effect)
		if len(reply) == 0 || reply[0] == '-' {
			return fmt.Errorf("%.200q: %w", effect, errors.New(strings.TrimSpace(string(reply))))
		}
	}
	return nil
}

// HoldClock stops the server's clock at a moment, for what is done again, until release.
func (e *Embedded) HoldClock(at time.Time) (release func()) {
	was := e.clock.hold(at)
	return func() { e.SetClock(was) }
}
