package postgres

import (
	"errors"
	"log/slog"
	"regexp"
	"unicode"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/internal/broker"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
	"github.com/rounds-dev/rounds/poller/secrets"
)

const (
	name         = "postgres"
	defaultPort  = "5432"
	defaultTable = "rounds_messages"
	maxName      = 63 // bytes of an identifier
)

// tablePattern leaves room for _applied within the 48 bytes that sqlonce allows.
var tablePattern = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,39}\.)?[A-Za-z_][A-Za-z0-9_]{0,39}$`)

// Type is the type postgres of endpoints.
type Type struct {
	Namespace string         // the ring's
	Secrets   secrets.Source // has the URLs, passwords and certificates
	Log       *slog.Logger
	Dial      broker.Dial  // of declared endpoints; nil: the network
	Network   sink.Network // of endpoints that were added; nil: none can be
}

var (
	_ sink.Addable = Type{}
	_ sink.Tester  = (*config)(nil)
	_ sink.Place   = (*config)(nil)
)

// Type returns the name of the type.
func (Type) Type() string { return name }

// Addable marks that tables may be added while the service runs; see package broker. An endpoint that
// was added has no URL: it would be in a secret, and say only there where the password goes, and which
// files of the process are read.
func (Type) Addable() {}

func (t Type) options() broker.Options {
	return broker.Options{Kind: name, List: "servers", Port: defaultPort, Secrets: t.Secrets, Dial: t.Dial, Network: t.Network}
}

// Read reads the fields that only databases have. An endpoint of the file may have the whole URL as a
// secret:
//
//	{"name": "crm-db", "type": "postgres", "servers": ["db.example.com:5432"], "tls": true, "database": "crm",
//	 "user": "rounds", "password": {"secret": "CRM_DB"}, "table": "rounds_messages"}
//	{"name": "crm-db", "type": "postgres", "url": {"secret": "CRM_DB_URL"}, "table": "rounds_messages"}
func (t Type) Read(e sink.Endpoint, r *strict.Reader) sink.Config {
	c := &config{Type: t, name: e.Name, table: defaultTable}
	switch {
	case r.Has("url") && e.Added():
		r.Take("url")
		r.Fault("url", "is only for endpoints of the file: name the servers, database, user and password")
	case r.Has("url"):
		c.readURL(r)
	case !e.Added() && !r.Has("servers"):
		r.Fault("url", "missing: it or servers must be there")
	default:
		c.readServers(e, r)
	}
	if r.Optional("table", "a string", &c.table); !tablePattern.MatchString(c.table) {
		r.Fault("table", "must be NAME or SCHEMA.NAME of ASCII letters, digits and underscores, at most 40 each")
	}
	if e.Format != sink.Plain {
		r.Fault("format", "must be left out: rows have columns")
	}
	own := []string{"database", "user", "password", "table"}
	if !e.Added() {
		own = append([]string{"url"}, own...)
	}
	r.Known(t.options().Names(own...)...)
	return c
}

func (c *config) readURL(r *strict.Reader) {
	ref, err := secrets.ParseRef(r.Take("url"))
	switch {
	case errors.Is(err, secrets.ErrNotReference):
		r.Fault("url", `must be {"secret": "NAME"}, because it has a password: put it into `+secrets.ServiceEnvPrefix+"NAME")
	case err != nil:
		r.Fault("url", err.Error())
	case ref.IsZero():
		r.Fault("url", "missing")
	}
	c.url = ref
	for _, other := range []string{"servers", "database", "user", "password"} {
		if r.Take(other) != nil {
			r.Fault(other, "must be left out where there is a url, which says it")
		}
	}
}

func (c *config) readServers(e sink.Endpoint, r *strict.Reader) {
	c.Servers = c.Type.options().Read(e, r)
	for _, field := range []struct {
		name string
		to   *string
	}{{"database", &c.database}, {"user", &c.user}} {
		*field.to = r.Text(field.name)
		for _, char := range *field.to {
			if len(*field.to) > maxName || unicode.IsControl(char) {
				r.Fault(field.name, "must be a name of at most 63 bytes without control characters")
			}
		}
	}
	c.password = c.Secret(r, "password", true)
}

type config struct {
	Type
	broker.Servers
	name     string
	url      secrets.Ref // zero: it has servers
	database string
	user     string
	password secrets.Ref
	table    string
}

// Open returns the endpoint's sink.
func (c *config) Open() (delivery.Sink, error) { return &Sink{config: c}, nil }

// Fields returns the fields of the form.
func (t Type) Fields() []strict.Field {
	return t.options().Form(
		strict.Field{
			Name: "database", Type: strict.TextType, Required: true, Example: "crm",
			Label: strict.Words{EN: "Database", ZH: "数据库"},
			Help:  strict.Words{EN: "The name of the database.", ZH: "数据库的名称。"},
		},
		broker.UserField(true, strict.Words{EN: "Who signs in, and may create the table or use it.", ZH: "登录的用户，须可创建或使用该表。"}),
		broker.PasswordField("CRM_DB"),
		strict.Field{
			Name: "table", Type: strict.TextType, Default: defaultTable, Example: defaultTable,
			Label: strict.Words{EN: "Table", ZH: "表"},
			Help:  strict.Words{EN: "NAME or SCHEMA.NAME. It is created if it is missing.", ZH: "NAME 或 SCHEMA.NAME。缺少时会创建。"},
		},
	)
}
