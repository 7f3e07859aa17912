package checktest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller"
)

func eachMessageOnce(t *testing.T, p Party) {
	checker := p.New()
	var cursor []byte
	seen := make(map[string]bool)
	for _, n := range []int{0, 25, 0, 7, 8, 1, 0} {
		p.Post("a", n)
		var ids []string
		ids, cursor = p.drain(t, checker, "a", cursor)
		if len(ids) != n {
			t.Errorf("after %d were posted: got %v", n, ids)
		}
		for _, id := range ids {
			if seen[id] {
				t.Errorf("%s came twice", id)
			}
			seen[id] = true
			if want := len(seen); p.ID != nil && id != p.ID("a", want) {
				t.Fatalf("got %s, want %s", id, p.ID("a", want))
			}
		}
	}
}

// cursorsResume asks again under each earlier cursor, with another checker, as a replica
// does whose page was not written. The same page must come again, unless the third party gives
// each message once: then nothing may come.
func cursorsResume(t *testing.T, p Party) {
	type step struct {
		cursor []byte
		ids    []string
	}
	p.Post("a", 25)
	var steps []step
	var cursor []byte
	for more := true; more; {
		result := p.page(t, p.New(), p.request("a", cursor))
		steps = append(steps, step{cursor, idsOf(result)})
		if result.Cursor != nil {
			cursor = slices.Clone(result.Cursor)
		}
		if more = p.more(result); len(steps) > mostPages {
			t.Fatalf("no end after %d pages", mostPages)
		}
	}
	if p.Confirms {
		steps = steps[len(steps)-1:]
	}
	for i, s := range steps {
		kept, want := slices.Clone(s.cursor), s.ids
		if p.Once {
			want = nil
		}
		if got := idsOf(p.page(t, p.New(), p.request("a", s.cursor))); !slices.Equal(got, want) {
			t.Errorf("page %d: got %v, the first time %v", i+1, got, s.ids)
		}
		if !slices.Equal(kept, s.cursor) {
			t.Errorf("page %d: the check wrote into its cursor", i+1)
		}
	}
	p.Post("a", 3)
	if ids, _ := p.drain(t, p.New(), "a", cursor); len(ids) != 3 {
		t.Errorf("after 3 more: got %v", ids)
	}
	again := len(steps[len(steps)-1].ids) + 3
	switch {
	case p.Once:
		again = 0
	case p.Confirms:
		again = 3
	}
	if ids, _ := p.drain(t, p.New(), "a", steps[len(steps)-1].cursor); len(ids) != again {
		t.Errorf("from the page before: got %v", ids)
	}
}

// trialsTakeNothing tries an account by hand, page by page. A check that follows finds everything
// all the same.
func trialsTakeNothing(t *testing.T, p Party) {
	p.Post("a", 25)
	checker := p.New()
	r := p.request("a", nil)
	r.Hold, r.Trial = 0, true
	for pages, more := 0, true; more; pages++ {
		if pages == mostPages {
			t.Fatalf("a trial: no end after %d pages", pages)
		}
		result := p.page(t, checker, r)
		if more = result.HasMore; result.Cursor != nil {
			r.Cursor = result.Cursor
		}
	}
	if ids, _ := p.drain(t, checker, "a", nil); len(ids) != 25 {
		t.Errorf("after a trial: got %d of 25, %v", len(ids), ids)
	}
}

func brokenCursor(t *testing.T, p Party) {
	result, err := p.New().Check(t.Context(), p.request("a", []byte("\x00{")))
	if got := Failure(t, err); got.Kind != poller.CursorInvalid || !empty(result) {
		t.Errorf("got %+v, %v", result, got)
	}
}

func contextsEnd(t *testing.T, p Party) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	p.Post("a", 1)
	if result, err := p.New().Check(over, p.request("a", nil)); Failure(t, err).Kind != poller.Transient || !empty(result) {
		t.Errorf("cancelled before: got %+v, %v", result, err)
	}
	hung := 0
	for _, fault := range p.Faults {
		if !fault.Hangs {
			continue
		}
		hung++
		fault.Break("a")
		timed, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		result, err := p.New().Check(timed, p.request("a", nil))
		cancel()
		if got := Failure(t, err); got.Kind != poller.Transient || got.Code != "timeout" || !empty(result) {
			t.Errorf("%s, timed: got %+v, %v", fault.Name, result, got)
		}
		tellsNothing(t, fault.Name, err, p.Secrets)
		cancelled, cancel := context.WithCancel(t.Context())
		timer := time.AfterFunc(50*time.Millisecond, cancel)
		result, err = p.New().Check(cancelled, p.request("a", nil))
		timer.Stop()
		cancel()
		if got := Failure(t, err); got.Kind != poller.Transient || !empty(result) {
			t.Errorf("%s, cancelled: got %+v, %v", fault.Name, result, got)
		}
		p.Heal("a")
	}
	if hung == 0 {
		t.Error("no fault hangs: nothing was tried")
	}
	if ids, _ := p.drain(t, p.New(), "a", nil); len(ids) != 1 {
		t.Errorf("healed: got %v", ids)
	}
}

func faultsAreErrors(t *testing.T, p Party) {
	checker := p.New()
	p.Post("a", 3)
	ids, cursor := p.drain(t, checker, "a", nil)
	if len(ids) != 3 {
		t.Fatalf("got %v", ids)
	}
	for n, fault := range p.Faults {
		if fault.Hangs {
			continue
		}
		p.Post("a", 1)
		fault.Break("a")
		result, err := checker.Check(t.Context(), p.request("a", cursor))
		got := Failure(t, err)
		if got.Kind != fault.Kind || fault.Scope != "" && got.Scope != fault.Scope || fault.Code != "" && got.Code != fault.Code {
			t.Errorf("%s: got %v, scope %s", fault.Name, got, got.Scope)
		}
		if !empty(result) {
			t.Errorf("%s: the result is %+v", fault.Name, result)
		}
		tellsNothing(t, fault.Name, err, p.Secrets)
		p.Heal("a")
		if ids, cursor = p.drain(t, checker, "a", cursor); len(ids) != 1 || p.ID != nil && ids[0] != p.ID("a", 4+n-hangsBefore(p.Faults, n)) {
			t.Errorf("%s, healed: got %v", fault.Name, ids)
		}
	}
}

func hangsBefore(faults []Fault, n int) (hung int) {
	for _, f := range faults[:n] {
		if f.Hangs {
			hung++
		}
	}
	return hung
}

func manyAtOnce(t *testing.T, p Party) {
	const accounts = 20
	checker := p.New()
	var group sync.WaitGroup
	for n := range accounts {
		group.Go(func() {
			defer contain(t)
			id := strconv.Itoa(n)
			p.Post(id, n)
			found := 0
			var cursor []byte
			for pages, more := 0, true; more; pages++ {
				if pages == mostPages {
					t.Errorf("account %s: no end after %d pages", id, pages)
					return
				}
				r := p.request(id, cursor)
				result, err := checker.Check(t.Context(), r)
				if err != nil {
					t.Errorf("account %s: %v", id, err)
					return
				}
				judge(t, result, r.Limit, p.Secrets)
				found += len(result.Messages)
				if more = p.more(result); result.Cursor != nil {
					cursor = result.Cursor
				}
			}
			if found != n {
				t.Errorf("account %s: got %d messages", id, found)
			}
		})
	}
	group.Wait()
}

func (k Kind) configsAreJudged(t *testing.T, p Party) {
	checker := p.New()
	if checker.Kind() == "" {
		t.Error("the kind has no name")
	}
	if err := checker.Validate(p.Config("a")); err != nil {
		t.Errorf("valid: %v", err)
	}
	literals := secretsAreTold(t, checker, p)
	key := checker.RateKey(p.Config("a"))
	hidesSecrets(t, "rate key", key, p.Secrets)
	unknown := `{"other": "` + Hidden + `"}` // a later version may know it
	for _, config := range append([]string{`"` + Hidden + `"`, `{`, `[]`, unknown}, slices.Concat(literals, k.Invalid)...) {
		err := checker.Validate(json.RawMessage(config))
		if err == nil {
			t.Errorf("%s: valid", config)
		}
		tellsNothing(t, config, err, p.Secrets)
		hidesSecrets(t, "rate key", checker.RateKey(json.RawMessage(config)), p.Secrets)
		request := p.request("a", nil)
		request.Config = json.RawMessage(config)
		_, err = checker.Check(t.Context(), request)
		if got := Failure(t, err); got.Kind != poller.ConfigInvalid && got.Kind != poller.Unsupported && !errors.Is(err, poller.ErrHere) || config == unknown && got.Kind != poller.Unsupported {
			t.Errorf("%s: checked, got %v", config, got)
		}
		tellsNothing(t, config, err, p.Secrets)
	}
	err := checker.Validate(json.RawMessage(k.Faulty))
	for _, field := range k.Fields {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: not all faults at once: %v", field, err)
		}
	}
}

// secretsAreTold demands that a kind with a secret has one in this test. It returns configs with a
// secret's value instead of a reference to it, which Validate must refuse.
func secretsAreTold(t *testing.T, checker poller.Checker, p Party) (literals []string) {
	t.Helper()
	described, ok := checker.(strict.Described)
	if !ok {
		return nil
	}
	for _, f := range described.Fields() {
		if f.Type != strict.Secret {
			continue
		}
		if strings.Join(p.Secrets, "") == "" {
			t.Errorf("config.%s is a secret, and Party.Secrets is empty: Party.Config must refer to a secret, and Party.Secrets have its value, so that the suite notices where it is told", f.Name)
		}
		config := make(map[string]any)
		if err := json.Unmarshal(p.Config("a"), &config); err != nil {
			t.Fatalf("Party.Config is no object: %v", err)
		}
		config[f.Name] = Hidden
		literals = append(literals, string(encode(t, config)))
	}
	return literals
}
