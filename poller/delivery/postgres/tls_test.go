package postgres

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/testing/pgtest"
	"github.com/rounds-dev/rounds/testing/sinktest"
)

// rules admit everybody as the tests with one plain server need it, one user by TLS alone, and one only with a
// certificate too.
var rules = []string{
	"host all postgres,plain 127.0.0.1/32 scram-sha-256",
	"hostssl all secured 127.0.0.1/32 scram-sha-256",
	"hostssl all certified 127.0.0.1/32 scram-sha-256 clientcert=verify-ca",
}

// execute runs statements as the superuser.
func execute(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// A server that speaks TLS is used if its certificate is for its name and signed by the authority. What it
// refuses is said with the field that cures it.
func testTLS(t *testing.T, server *pgtest.Server, database, pair, authority string) {
	own, strange := sinktest.Certificate(t)
	execute(t, pgtest.Open(t, server.URL(database)),
		"CREATE ROLE secured LOGIN PASSWORD '"+password+"'", "CREATE ROLE certified LOGIN PASSWORD '"+password+"'", "GRANT ALL ON SCHEMA public TO secured, certified")
	at, byName := server.Addr(), strings.Replace(server.Addr(), "127.0.0.1", "localhost", 1)
	const verified, both = `,"tls":true,"ca_certificate":{"secret":"CA"}`, `,"tls":true,"ca_certificate":{"secret":"CA"},"client_certificate":{"secret":"OWN"}`
	const admission = "refused with 28000: the server admits no such user in this way: see user, tls and client_certificate, and the server's pg_hba.conf"
	for name, one := range map[string]struct{ address, user, fields, ca, own, want string }{
		"verified":                 {at, "secured", verified, authority, "", ""},
		"with a certificate":       {at, "certified", both, authority, pair, ""},
		"another name":             {byName, "secured", verified, authority, "", "the server's certificate is for another name than the one by which it is reached: see servers"},
		"an unknown authority":     {at, "secured", verified, strange, "", "the server's certificate is not trusted: see ca_certificate"},
		"the system's authorities": {at, "secured", `,"tls":true`, "", "", "the server's certificate is not trusted: see ca_certificate"},
		"without TLS":              {at, "secured", "", "", "", admission},
		"without a certificate":    {at, "certified", verified, authority, "", admission},
		"a stranger's certificate": {at, "certified", both, authority, own, "the server refused TLS: unknown certificate authority: see client_certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			e := added(t, fmt.Sprintf(`"servers":[%q],"database":%q,"user":%q,"password":{"secret":"PASSWORD"},"table":%q%s`, one.address, database, one.user, "of_"+one.user, one.fields),
				map[string]string{"CA": one.ca, "OWN": one.own, "PASSWORD": password})
			s := &Sink{config: e}
			defer func() { _ = s.Close() }()
			tried, handled := e.Try(t.Context()), s.Handle(t.Context(), sinktest.Messages(1, "a"))[0]
			if one.want == "" {
				if tried != nil || handled != nil {
					t.Errorf("tried: %v, handled: %v", tried, handled)
				}
				return
			}
			var later *delivery.Later
			if !errors.As(handled, &later) {
				t.Errorf("messages do not wait: %v", handled)
			}
			for _, err := range []error{tried, handled} {
				// In TLS 1.3 a client writes before the server has judged it, and may not read why it closes.
				got := fmt.Sprint(err)
				broke := name == "a stranger's certificate" && strings.Contains(got, "postgres: the connection broke")
				if !strings.Contains(got, one.want) && !broke || strings.Contains(got, password) || strings.Contains(got, "127.0.0.1") {
					t.Errorf("got %s, want %s", got, one.want)
				}
			}
		})
	}
}
