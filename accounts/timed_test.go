package accounts

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/testing/faketime"
)

// An account whose cadence names a time waits for it. A time in the past is refused with the
// reason, wherever the record comes from, unless the account already has that cadence.
func TestTimedCadences(t *testing.T) {
	faketime.Redis(t, func(t *testing.T, server *connect.Embedded) {
		ctx := context.Background()
		r, ring := newRegistry(t, server, 4)
		now, err := ring.Now(ctx, 0)
		if err != nil {
			t.Fatal(err)
		}
		now = now.Truncate(time.Millisecond)
		soon := now.Add(2 * time.Second)
		at := func(when time.Time) string { return "at " + when.UTC().Format(time.RFC3339Nano) }
		past := func(doing string, err error) {
			t.Helper()
			var faults Faults
			if !errors.As(err, &faults) || len(faults) != 1 || faults[0].Field != "cadence" || !strings.Contains(faults[0].Reason, "is past: it is now 20") {
				t.Errorf("%s: %v", doing, err)
			}
		}
		line := func(id, cadence string) string {
			return fmt.Sprintf("{\"id\":%q,\"kind\":\"plain\",\"cadence\":%q}\n", id, cadence)
		}

		_, err = r.Create(ctx, Account{ID: "late", Kind: "plain", Cadence: at(now.Add(-time.Second))})
		past("create", err)
		_, _, err = r.Put(ctx, Account{ID: "late", Kind: "plain", Cadence: at(now.Add(-time.Second))})
		past("put", err)
		if _, err := r.Get(ctx, "late"); !errors.Is(err, ErrNotFound) {
			t.Errorf("it was registered: %v", err)
		}

		// The past time is reported together with other faults.
		late := Account{ID: "late", Kind: "web", Cadence: at(now.Add(-time.Second)), Priority: "high"}
		among := func(doing string, err error) {
			t.Helper()
			var faults Faults
			if !errors.As(err, &faults) || len(faults) != 3 || faults[0].Field != "priority" || faults[1].Field != "config.url" {
				t.Fatalf("%s: %v", doing, err)
			}
			past(doing, faults[2:])
		}
		_, err = r.Create(ctx, late)
		among("create", err)
		_, _, err = r.Put(ctx, late)
		among("put", err)
		faulty := fmt.Sprintf(`{"kind":"web","priority":"high","cadence":%q}`, late.Cadence)
		_, err = r.Read(ctx, "late", []byte(faulty))
		among("read", err)
		_, err = r.Import(ctx, strings.NewReader(strings.Replace(faulty, "{", `{"id":"late",`, 1)), func(b BadLine) error {
			among("import", b.Faults)
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		if _, err := r.Read(ctx, "late", []byte(fmt.Sprintf(`{"kind":"plain","cadence":%q}`, late.Cadence))); err != nil {
			t.Errorf("without other faults it is for create and put to say: %v", err)
		}

		v, err := r.Create(ctx, Account{ID: "soon", Kind: "plain", Cadence: at(soon)})
		if err != nil || v.State.Place != circulate.Scheduled || !v.State.Due.Equal(soon) {
			t.Errorf("create: %+v, %v; want it due at %v", v.State, err, soon)
		}
		yearly := "cron 0 0 1 1 * Asia/Shanghai"
		v, _, err = r.Put(ctx, Account{ID: "cron", Kind: "plain", Cadence: yearly})
		if c, parseErr := cadence.Parse(yearly); err != nil || parseErr != nil {
			t.Fatal(err, parseErr)
		} else if slot, _ := c.After("cron", now, cadence.State{}); !v.State.Due.Equal(slot) {
			t.Errorf("put: due %v, its slot is %v", v.State.Due, slot)
		}
		s, err := r.Import(ctx, strings.NewReader(line("soon", at(soon))+line("imported", at(soon))), noBadLines(t))
		if err != nil || s.Unchanged != 1 || s.Created != 1 {
			t.Errorf("import: %+v, %v", s, err)
		}
		if v, err := r.Get(ctx, "imported"); err != nil || !v.State.Due.Equal(soon) {
			t.Errorf("import: due %v, %v; want %v", v.State.Due, err, soon)
		}

		time.Sleep(time.Until(soon.Add(20 * time.Millisecond)))
		v, change, err := r.Put(ctx, Account{ID: "soon", Kind: "plain", Cadence: at(soon)})
		if err != nil || change != circulate.Unchanged || !v.State.Due.Equal(soon) {
			t.Errorf("the same once more: %+v, %c, %v", v.State, change, err)
		}
		_, _, err = r.Put(ctx, Account{ID: "soon", Kind: "plain", Cadence: at(soon), RetryBudget: 3})
		past("put of a change", err)
		var bad []BadLine
		s, err = r.Import(ctx, strings.NewReader(line("new", at(soon))+line("soon", at(soon))+line("cron", "every 1m")), func(b BadLine) error {
			bad = append(bad, b)
			return nil
		})
		if err != nil || s.Failed != 1 || s.Unchanged != 1 || s.Updated != 1 || len(bad) != 1 || bad[0].ID != "new" {
			t.Fatalf("import: %+v, %v; bad: %+v", s, err, bad)
		}
		past("import", bad[0].Faults)
	})
}
