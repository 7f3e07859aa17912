package document_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate/document"
	"github.com/rounds-dev/rounds/testing/redistest"
)

func TestTermsEndByThemselves(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		terms, ctx := open(t, server).Maintenance(), t.Context()
		now, err := terms.Now(ctx)
		if err != nil {
			t.Fatal(err)
		}
		put := func(name string, until time.Time) error {
			return terms.Put(ctx, document.Term{Name: name, Until: until, Text: []byte("a|" + name)})
		}
		// Ended ones make room, and are not among all.
		for n := range document.MostTerms {
			if err := put("ended"+strconv.Itoa(n), now.Add(-time.Second)); err != nil {
				t.Fatal(err)
			}
		}
		for n := range document.MostTerms {
			if err := put(strconv.Itoa(n), now.Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		if err := put("more", now.Add(time.Hour)); !errors.Is(err, document.ErrFull) {
			t.Errorf("one more than there may be: %v", err)
		}
		if err := put("0", now.Add(2*time.Hour)); err != nil {
			t.Errorf("in place of another: %v", err)
		}
		do(t, server, "HSET", "ns:maintenance", "strange", "soon|text", "old", "1|text")
		all, _, err := terms.All(ctx)
		if err != nil || len(all) != document.MostTerms {
			t.Errorf("got %d terms, %v", len(all), err)
		}
		for _, one := range all {
			if string(one.Text) != "a|"+one.Name {
				t.Errorf("%s is %q", one.Name, one.Text)
			}
		}
		if left := do(t, server, "PTTL", "ns:maintenance"); left.(int64) < int64(time.Hour/time.Millisecond) || left.(int64) > int64(2*time.Hour/time.Millisecond) {
			t.Errorf("the key lives for %v ms", left)
		}
		for _, want := range []bool{true, false} {
			if there, err := terms.Remove(ctx, "0"); err != nil || there != want {
				t.Errorf("removed: %v, %v", there, err)
			}
		}
		if err := put("more", now.Add(time.Hour)); err != nil {
			t.Errorf("in the room of a removed one: %v", err)
		}
		do(t, server, "DEL", "ns:maintenance")
		do(t, server, "SET", "ns:maintenance", "a key of another type")
		if err := put("more", now.Add(time.Hour)); err != nil {
			t.Errorf("with a key of another type: %v", err)
		}
		for _, wrong := range []document.Term{{Text: []byte("a")}, {Name: "a"}, {Name: strings.Repeat("a", document.MaxTermName+1), Text: []byte("a")}, {Name: "a", Text: make([]byte, document.MaxTerm+1)}} {
			if err := terms.Put(ctx, wrong); err == nil || !strings.Contains(err.Error(), "bytes") {
				t.Errorf("a term with a name of %d bytes and a text of %d: %v", len(wrong.Name), len(wrong.Text), err)
			}
		}
	})
}
