package sqlonce

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rounds-dev/rounds/poller/delivery"
)

// identity identifies a message in the table.
type identity [3]string // group, account, message

const (
	positioned = "at:"     // begins the identity of a message without id
	hashed     = "sha256:" // begins the replacement of a text that the table cannot have
	longest    = 250       // bytes of a text; PostgreSQL allows 2,704 in an index row
)

func identify(d *delivery.Delivery) identity {
	message := text(d.Message.ID)
	if d.Message.ID == "" {
		message = positioned + d.Position + ":" + fingerprint(d)[:16]
	}
	return identity{text(d.Group), text(d.Account), message}
}

// fingerprint returns a hash of a message's content. After a failover that rolled a stream back, a
// position may belong to another message.
func fingerprint(d *delivery.Delivery) string {
	return digest(fmt.Sprintf("%q %q %s", d.Message.Type, d.Message.Time.UTC().Format(time.RFC3339Nano), d.Message.Data))
}

// text returns a text that any database can have in a key: the text itself, or its hash if it is
// long, not UTF-8, or has a NUL. Different texts never have the same result.
func text(s string) string {
	if len(s) > longest || !utf8.ValidString(s) || strings.ContainsRune(s, 0) ||
		strings.HasPrefix(s, hashed) || strings.HasPrefix(s, positioned) {
		return hashed + digest(s)
	}
	return s
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// encode returns identities as an argument of the record statement. They are sorted and each occurs
// once, so that two transactions with common messages cannot deadlock.
func encode(ids []identity) (string, error) {
	sorted := slices.Clone(ids)
	slices.SortFunc(sorted, func(a, b identity) int { return slices.Compare(a[:], b[:]) })
	encoded, err := json.Marshal(slices.Compact(sorted))
	return string(encoded), err
}
