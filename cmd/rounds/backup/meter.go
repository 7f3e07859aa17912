package backup

import (
	"bytes"
	"encoding/json"
)

// Meter counts what is in a backup that is written to it, to show progress. It checks
// nothing, and its Write never fails.
type Meter struct {
	Counts Counts // accounts and messages
	Bytes  int64
	About  Counts // how much there was when the backup was begun; zero before the header

	begin []byte // the beginning of the line
	line  int
}

const (
	accountBegins, messageBegins = `{"account":`, `{"message":`
	mostHeader                   = 64 << 10
)

// Write counts lines by how they begin.
func (m *Meter) Write(text []byte) (int, error) {
	m.Bytes += int64(len(text))
	for rest := text; len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n')
		part := rest
		if end >= 0 {
			part = rest[:end]
		}
		most := len(accountBegins)
		if m.line == 0 {
			most = mostHeader
		}
		if room := most - len(m.begin); room > 0 {
			m.begin = append(m.begin, part[:min(room, len(part))]...)
		}
		if end < 0 {
			break
		}
		m.count()
		rest = rest[end+1:]
	}
	return len(text), nil
}

func (m *Meter) count() {
	switch string(m.begin[:min(len(m.begin), len(accountBegins))]) {
	case accountBegins:
		m.Counts.Accounts++
	case messageBegins:
		m.Counts.Messages++
	default:
		var l line
		if m.line == 0 && json.Unmarshal(m.begin, &l) == nil && l.Header != nil {
			m.About = l.Header.About
		}
	}
	m.line++
	m.begin = m.begin[:0]
}
