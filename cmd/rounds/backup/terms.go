package backup

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
)

// termLine is a document that holds until a time, as document.Terms has it.
type termLine struct {
	Sort  string `json:"sort"` // a name of termSorts
	Name  text   `json:"name"`
	Until int64  `json:"until"` // unix ms
	Text  text   `json:"text"`
}

// termSorts returns the sorts of terms by their names in a backup.
func termSorts(ring *circulate.Ring) map[string]document.Terms {
	return map[string]document.Terms{
		sortMaintenance: document.Of(ring).Maintenance(), sortSilence: document.Of(ring).Silences(), sortView: document.Of(ring).Views(),
	}
}

const sortMaintenance, sortSilence, sortView = "maintenance", "silence", "view"

func (l *termLine) check() error {
	switch {
	case l.Sort != sortMaintenance && l.Sort != sortSilence && l.Sort != sortView:
		return fmt.Errorf("term: sort: %q is unknown", l.Sort)
	case l.Name == "" || len(l.Name) > document.MaxTermName:
		return fmt.Errorf("term: name: must have 1 to %d bytes", document.MaxTermName)
	case l.Text == "" || len(l.Text) > document.MaxTerm:
		return fmt.Errorf("term: text: must have 1 to %d bytes", document.MaxTerm)
	}
	return nil
}

// holdingTerms returns the terms that have not ended. They are few, and the format depends on them.
func holdingTerms(ctx context.Context, ring *circulate.Ring) (all []line, err error) {
	sorts := termSorts(ring)
	for _, sort := range slices.Sorted(maps.Keys(sorts)) {
		terms, _, err := sorts[sort].All(ctx)
		if err != nil {
			return nil, err
		}
		for _, t := range terms {
			all = append(all, line{Term: &termLine{sort, text(t.Name), t.Until.UnixMilli(), text(t.Text)}})
		}
	}
	return all, nil
}

func (w *writer) terms(context.Context, *circulate.Ring) error {
	for _, l := range w.holding {
		if err := w.write(l); err != nil {
			return err
		}
	}
	return nil
}

// restore stores a term. One that has ended since is of no use, and expires at once.
func (l *termLine) restore(ctx context.Context, ring *circulate.Ring) error {
	return termSorts(ring)[l.Sort].Put(ctx, document.Term{Name: string(l.Name), Until: time.UnixMilli(l.Until), Text: []byte(l.Text)})
}
