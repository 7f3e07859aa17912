package activity

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/rounds-dev/rounds/circulate/document"
)

// format is the first byte of a stored sheet. This program cannot read another format.
const format = 1

// A stored sheet is its format and sections: a byte for its sort, its length, its content. Numbers
// are varints, times are in milliseconds. Each list of figures says first how many numbers each
// entry has: new ones only come at the end.
const (
	sectionAll   = 'a'
	sectionPart  = 'A' // and the letters after it, one for each part
	sectionRows  = 'r'
	sectionMarks = 'm'
)

var (
	errFormat = errors.New("activity: a sheet of another format")
	errSheet  = errors.New("activity: a sheet that cannot be read")
)

// numbers are a check's figures as they are stored.
func (f *Figures) numbers() []uint64 {
	return []uint64{f.Checks, f.Failures, f.Messages, f.Timed, ms(f.Late), ms(f.LateMost), ms(f.Took), ms(f.TookMost)}
}

func (f *Figures) set(n []uint64) {
	all := make([]uint64, 8)
	copy(all, n)
	*f = Figures{all[0], all[1], all[2], all[3], fromMS(all[4]), fromMS(all[5]), fromMS(all[6]), fromMS(all[7])}
}

func ms(d time.Duration) uint64 { return uint64(max(0, d) / time.Millisecond) }

func fromMS(n uint64) time.Duration {
	return time.Duration(min(n, uint64(1<<62)/uint64(time.Millisecond))) * time.Millisecond
}

// Encode returns the sheet in its stored form. It first drops names and marks above the bounds.
func (s *Sheet) Encode() []byte {
	most, marks := mosts(), mostMarks
	for {
		s.cut(most, marks)
		text := s.encode()
		if len(text) <= document.MaxPeriod {
			return text
		}
		for p := range most {
			if Part(p) != Kinds || most[Hosts] == 0 {
				most[p] = most[p] * 3 / 4
			}
		}
		marks = marks * 3 / 4
	}
}

func (s *Sheet) encode() []byte {
	text := []byte{format}
	section := func(sort byte, content []byte) {
		text = append(text, sort)
		text = binary.AppendUvarint(text, uint64(len(content)))
		text = append(text, content...)
	}
	section(sectionAll, appendFigures([]byte{8}, &s.All))
	for p := range parts {
		content := []byte{8}
		for _, name := range s.names(Part(p)) {
			content = appendFigures(appendText(content, name), s.Parts[p][name])
		}
		section(sectionPart+byte(p), content)
	}
	rows := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(s.Shards)), 3)
	for i := range s.Rows {
		r := &s.Rows[i]
		for _, n := range []uint64{r.Timed, ms(r.Late), ms(r.LateMost)} {
			rows = binary.AppendUvarint(rows, n)
		}
	}
	section(sectionRows, rows)
	var marks []byte
	for _, m := range s.Marks {
		marks = binary.AppendUvarint(append(marks, byte(m.Kind)), uint64(max(0, m.At.Unix())))
		marks = binary.AppendUvarint(appendText(marks, m.Subject), uint64(max(0, m.Count)))
	}
	section(sectionMarks, marks)
	return text
}

func appendFigures(to []byte, f *Figures) []byte {
	for _, n := range f.numbers() {
		to = binary.AppendUvarint(to, n)
	}
	return to
}

func appendText(to []byte, text string) []byte {
	text = text[:min(len(text), mostName)]
	return append(binary.AppendUvarint(to, uint64(len(text))), text...)
}

// scan reads a stored sheet from the left.
type scan struct {
	text []byte
	bad  bool
}

func (s *scan) number() uint64 {
	n, size := binary.Uvarint(s.text)
	if size <= 0 {
		s.bad, s.text = true, nil
		return 0
	}
	s.text = s.text[size:]
	return n
}

func (s *scan) bytes(most uint64) []byte {
	n := s.number()
	if n > most || n > uint64(len(s.text)) {
		s.bad, s.text = true, nil
		return nil
	}
	text := s.text[:n]
	s.text = s.text[n:]
	return text
}

// numbers reads some numbers of an entry.
func (s *scan) numbers(n int) []uint64 {
	all := make([]uint64, n)
	for i := range all {
		all[i] = s.number()
	}
	return all
}

// width reads how many numbers each entry has.
func (s *scan) width() int {
	n := s.number()
	if n == 0 || n > 64 {
		s.bad, s.text = true, nil
		return 1
	}
	return int(n)
}

// Decode reads a stored sheet. It skips sections that it does not know.
func Decode(text []byte) (*Sheet, error) {
	if len(text) == 0 || len(text) > document.MaxPeriod {
		return nil, errSheet
	}
	if text[0] != format {
		return nil, errFormat
	}
	s, in := &Sheet{}, &scan{text: text[1:]}
	for len(in.text) > 0 {
		sort := in.text[0]
		in.text = in.text[1:]
		content := &scan{text: in.bytes(document.MaxPeriod)}
		switch {
		case sort == sectionAll:
			s.All.set(content.numbers(content.width()))
		case sort >= sectionPart && sort < sectionPart+byte(parts):
			width := content.width()
			for len(content.text) > 0 {
				name := string(content.bytes(mostName))
				s.of(Part(sort-sectionPart), name).set(content.numbers(width))
			}
		case sort == sectionRows:
			s.readRows(content)
		case sort == sectionMarks:
			for len(content.text) > 0 {
				m := Mark{Kind: MarkKind(content.text[0])}
				content.text = content.text[1:]
				m.At = time.Unix(int64(min(content.number(), 1<<40)), 0)
				m.Subject = string(content.bytes(mostName))
				m.Count = int(min(content.number(), 1<<40))
				s.Marks = append(s.Marks, m)
			}
		}
		if in.bad || content.bad {
			return nil, errSheet
		}
	}
	return s, nil
}

func (s *Sheet) readRows(content *scan) {
	shards := content.number()
	width := content.width()
	if shards > 1<<20 {
		content.bad = true
		return
	}
	for len(content.text) > 0 && len(s.Rows) < mostRows {
		n := append(content.numbers(width), 0, 0, 0)
		s.Rows = append(s.Rows, Figures{Timed: n[0], Late: fromMS(n[1]), LateMost: fromMS(n[2])})
	}
	s.Shards = int(shards)
}
