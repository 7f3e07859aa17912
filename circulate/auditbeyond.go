package circulate

import "context"

// beyond goes through what is scheduled, for accounts that are due later than they
// can be: by a clock that was wrong, and that nobody saw go back.
func (a *audit) beyond(ctx context.Context) error {
	if a.o.Beyond == nil {
		return nil
	}
	pages := 0
	for cursor := ""; cursor != ScanDone; {
		far, now, next, err := a.ring.Clocks().FarScheduled(ctx, a.shard, cursor, auditPage, AuditFar)
		if err != nil {
			return err
		}
		cursor = next
		for _, f := range far {
			due, beyond := a.o.Beyond(f, now)
			if !beyond {
				continue
			}
			moved := 0
			if a.o.Repair {
				if moved, err = a.ring.Clocks().MoveDue(ctx, a.shard, []Move{{Far: f, To: due}}); err != nil {
					return err
				}
			}
			a.report(Beyond, f.ID, moved == 1)
		}
		// A page without any costs next to nothing.
		if pages++; len(far) > 0 || pages%8 == 0 {
			if err := a.pause(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}
