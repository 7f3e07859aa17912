// Package settings reads the service's settings from flags, the environment and defaults, checks
// them, and lists them. It is no part of the service: service.Validate checks what only a setting's
// user can validate, such as whether a kind is known.
package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Settings are the settings of the service. The structs below are the one source of every
// variable: its name and default (env), its meaning (about), its bounds (min, max), its
// choices (oneof), whether its value may be shown (secret), whether a running process
// can change it (live), and its flag if that does not follow from the name (flag). The flags, the help and the guide's table are made from them.
type Settings struct {
	Redis     Redis
	API       API
	Access    Access
	OIDC      OIDC
	Poller    Poller
	Seal      Seal
	Monitor   Monitor
	Delivery  Delivery
	FileStore FileStore
	Keeping   Keeping
	Log       Log
	File      File
}

// Redis says where Redis is, and which part of it this service uses.
type Redis struct {
	URL                  string        `env:"ROUNDS_REDIS_URL" secret:"in part" about:"where Redis is: redis://[USER:PASSWORD@]HOST:PORT[/DATABASE], redis+sentinel://[USER:PASSWORD@]HOST:PORT[,…]/MASTER[?db=N&sentinel_user=U&sentinel_password=P&sentinel_tls=BOOL] or redis+cluster://[USER:PASSWORD@]HOST:PORT[,…], with rediss for TLS; unset: one inside the process, which stores its data in ROUNDS_DATA_DIR"`
	DataDir              string        `env:"ROUNDS_DATA_DIR" flag:"data" about:"directory in which the Redis inside the process stores its data, for one process alone; memory: nowhere, everything is lost when the process ends; unset: rounds in the user's state directory, such as ~/.local/state/rounds; ignored if ROUNDS_REDIS_URL is set"`
	DataWithin           time.Duration `env:"ROUNDS_DATA_SAVE_WITHIN,default=5m" min:"50ms" max:"1h" about:"how long the log in ROUNDS_DATA_DIR grows before an image replaces it; an acknowledged write is in the log at once"`
	PasswordFile         string        `env:"ROUNDS_REDIS_PASSWORD_FILE" about:"file that holds Redis' password, in place of one in ROUNDS_REDIS_URL, which may name the user as redis://USER@HOST:PORT; read again for each new connection"`
	SentinelPasswordFile string        `env:"ROUNDS_REDIS_SENTINEL_PASSWORD_FILE" about:"the same for the sentinels of redis+sentinel://, in place of sentinel_password"`

	// DataGiven is set if a flag or variable says where DataDir is.
	DataGiven bool

	CAFile    string `env:"ROUNDS_REDIS_CA_FILE" about:"PEM file with further authorities for Redis' certificate, besides the system's"`
	CertFile  string `env:"ROUNDS_REDIS_CERT_FILE" about:"PEM file with the certificate to show to Redis"`
	KeyFile   string `env:"ROUNDS_REDIS_KEY_FILE" about:"PEM file with that certificate's key"`
	Namespace string `env:"ROUNDS_NAMESPACE,default=rounds" about:"the beginning of every key in Redis: 1 to 64 letters, digits, dots, dashes or underscores"`
	Shards    int    `env:"ROUNDS_SHARDS,default=0" min:"0" max:"16384" about:"how many shards a namespace has, fixed at its first start; 0: as many as the namespace has, or 64 if it is new"`
	Timeline  int    `env:"ROUNDS_TIMELINE,default=100000" live:"yes" min:"0" max:"100000000" about:"about how many lines the timelines of all accounts keep in Redis together, at some 100 bytes each, the same in all processes; 0: none, and a starting process removes existing lines"`
}

// Memory is the choice of ROUNDS_DATA_DIR that stores nothing.
const Memory = "memory"

// InDataDir reports whether the Redis inside the process stores its data in a directory.
func (r Redis) InDataDir() bool { return r.URL == "" && r.DataDir != "" && r.DataDir != Memory }

// API says what a process does, and how it is reached.
type API struct {
	Roles      Roles  `env:"ROUNDS_ROLES,default=api,poller,monitor" oneof:"api poller monitor delivery" about:"what this process does: api, poller, monitor, delivery or several of them, separated by commas"`
	Addr       string `env:"ROUNDS_API_ADDR,default=127.0.0.1:8080" about:"where the API listens: HOST:PORT, off loopback only with a token, or if ROUNDS_API_AUTH is required; unix:PATH; or systemd:NAME, the socket of a socket unit with FileDescriptorName=NAME"`
	Auth       string `env:"ROUNDS_API_AUTH,default=auto" oneof:"auto required" about:"who may use the API: auto, callers with the token or a key if a token is set, otherwise everybody on this machine; required, only callers with the token or a key"`
	OpsAddr    string `env:"ROUNDS_OPS_ADDR" about:"where /metrics, /healthz and /readyz are served apart from the API, in the form of ROUNDS_API_ADDR, with connections of their own; off loopback /metrics demands the token or a key; unset: only by the API"`
	SocketMode Mode   `env:"ROUNDS_API_SOCKET_MODE,default=660" about:"permissions of sockets that ROUNDS_API_ADDR and ROUNDS_OPS_ADDR name as unix:PATH, in octal, as for chmod"`
	PublicURL  string `env:"ROUNDS_PUBLIC_URL" about:"where others reach the API, such as https://rounds.example.com, behind the proxy that adds TLS"`

	TrustedProxies string `env:"ROUNDS_TRUSTED_PROXIES" about:"proxies whose X-Forwarded-For is trusted to name a request's origin, separated by commas: addresses, networks such as 10.1.0.0/16, and unix for all at a unix: socket; unset: none, and the origin of a request is that of its connection"`

	Connections  int  `env:"ROUNDS_API_CONNECTIONS,default=1024" min:"16" max:"1000000" about:"how many connections the API has at once; above that, connections without a complete request or with an unread reply are closed for new ones"`
	Followers    int  `env:"ROUNDS_API_FOLLOWERS,default=256" min:"1" max:"100000" about:"how many callers may follow found messages at once"`
	SendsWaiting int  `env:"ROUNDS_SENDS_WAITING,default=1000" min:"1" max:"10000" about:"how many sends of an account may wait or be unknown; above that the API answers 429"`
	SendsInAll   int  `env:"ROUNDS_SENDS_WAITING_IN_ALL,default=1000000" min:"1" max:"100000000" about:"about how many sends of all accounts may wait; above that the API answers 429"`
	RequireMatch bool `env:"ROUNDS_API_REQUIRE_MATCH,default=false" about:"whether the API changes or deletes an account only with If-Match, and otherwise answers 428; imports and bulk changes need none"`

	Dashboard bool `env:"ROUNDS_DASHBOARD,default=true" about:"whether the API serves the pages of the dashboard, at /, besides its own routes"`
	TrailKept int  `env:"ROUNDS_TRAIL_KEPT,default=100000" min:"0" max:"100000000" about:"about how many entries the trail of who changed what keeps in Redis, at some 300 bytes each; 0: none, only the log has them"`

	CallbacksFile string `env:"ROUNDS_CALLBACKS_FILE" live:"yes" about:"JSON file with the callbacks of WeCom that the API obeys"`
}

// KeysRequired reports whether the API refuses everybody without the token or a key.
func (a API) KeysRequired() bool { return a.Auth == authRequired }

// authRequired is the choice of ROUNDS_API_AUTH that refuses everybody without the token
// or a key.
const authRequired = "required"

// Access is what the API and its callers must agree on.
type Access struct {
	Token     string `env:"ROUNDS_API_TOKEN" live:"yes" secret:"yes" about:"the bearer token that the API demands and the commands send, of at least 16 characters"`
	TokenFile string `env:"ROUNDS_API_TOKEN_FILE" live:"yes" about:"file that holds the token, in place of ROUNDS_API_TOKEN"`
	URL       string `env:"ROUNDS_API_URL,default=http://127.0.0.1:8080" secret:"in part" about:"where the commands reach the API: an http or https URL, or unix:///PATH"`
}

// Poller has the settings of the role poller, and the settings that checks and webhooks share.
type Poller struct {
	Concurrency       int           `env:"ROUNDS_CONCURRENCY,default=256" min:"1" max:"100000" about:"how many checks a replica makes at once"`
	HeldChecks        int           `env:"ROUNDS_HELD_CHECKS,default=20000" min:"1" max:"1000000" about:"how many held checks, whose third parties hold a call until something comes, a replica makes at once, besides ROUNDS_CONCURRENCY; each needs a connection and some 24 KiB"`
	KeptConnections   int           `env:"ROUNDS_KEPT_CONNECTIONS,default=8192" min:"1" max:"1000000" about:"how many connections to third parties stay open in a process between calls, for up to 90 seconds; each needs some 6 KiB, or 20 over HTTP/2, and an open file; all together take at most half of the open files"`
	CheckTimeout      time.Duration `env:"ROUNDS_CHECK_TIMEOUT,default=30s" min:"10ms" max:"1h" about:"how long one check may take"`
	HeartbeatInterval time.Duration `env:"ROUNDS_HEARTBEAT_INTERVAL,default=2s" min:"10ms" max:"1h" about:"how often a replica reports that it is alive"`
	GracePeriod       time.Duration `env:"ROUNDS_GRACE_PERIOD,default=20s" min:"0s" max:"1h" about:"how long checks and deliveries under way may go on at shutdown"`
	ConfirmSynced     bool          `env:"ROUNDS_CONFIRM_SYNCED,default=true" about:"whether a call that makes the third party forget found messages, as any call of telegram and weixin may, waits until they are on Redis' disk, and a send until its attempt is; with appendfsync everysec up to a second after each page; ignored before Redis 7.2, or without an append-only file"`
	ConfirmReplicas   int           `env:"ROUNDS_CONFIRM_REPLICAS,default=0" min:"0" max:"16" about:"how many replicas of Redis must have an attempt of a send before its first byte leaves, and found messages before a call that makes the third party forget them; where fewer have them within two seconds, such sends and calls wait; 0: none"`
	AllowNetworks     string        `env:"ROUNDS_ALLOW_NETWORKS" live:"yes" about:"what checks, webhooks and added endpoints may reach besides the public internet, separated by commas: networks such as 10.1.0.0/16, addresses and host names, each of the latter two optionally with :PORT; link-local and cloud metadata addresses only by an entry within that range, Redis' own only as ADDRESS:PORT"`
	AllowPrivate      bool          `env:"ROUNDS_ALLOW_PRIVATE_ADDRESSES,default=false" about:"whether checks, webhooks and added endpoints may reach any loopback or private address; ROUNDS_ALLOW_NETWORKS is narrower and better"`
	Proxy             string        `env:"ROUNDS_PROXY" secret:"in part" about:"HTTP proxy that checks and webhooks go through, http://[USER:PASSWORD@]HOST:PORT or https://…; it resolves names, and so decides which private addresses they reach; imap does not go through it"`
	NoProxy           string        `env:"ROUNDS_NO_PROXY" about:"hosts that are reached without the proxy, separated by commas: names, which include the names below them, addresses, and networks such as 10.0.0.0/8; loopback never needs the proxy"`
	Egress            string        `env:"ROUNDS_EGRESS" secret:"in part" about:"named ways out, separated by semicolons: NAME, then where it leads, http://[USER:PASSWORD@]HOST:PORT, https://…, socks5://…, source://ADDRESS or direct, then who goes by it, label=NAME=VALUE, kind=KIND or all; an account's label egress=NAME comes first; such as berlin socks5://10.0.0.1:1080 kind=weixin; a down way's accounts wait; webhooks go by none; all pollers and the API need the same"`
	Contact           string        `env:"ROUNDS_CONTACT" about:"whom third parties may turn to about this service's calls, which the header User-Agent names: a URL such as https://example.com/bot or mailto:ops@example.com; without it, the header has the address of this project"`
	FollowMoves       bool          `env:"ROUNDS_FOLLOW_MOVES,default=false" about:"whether the record of a feed that redirects permanently (301, 308) gets the new address once a feed has answered there; never from https to http, and not to another host if the config has a login or headers; otherwise moves are only reported"`
	Limits            string        `env:"ROUNDS_LIMITS" live:"yes" about:"limits that all replicas share, separated by semicolons: KIND, KIND/* for each of its hosts or credentials, or KIND/KEY for one, egress/* or egress/NAME for ways out, then rate=N/s, /m or /h, burst=N, concurrency=N; such as feed/* rate=2/s concurrency=4"`
	AdaptiveBudget    string        `env:"ROUNDS_ADAPTIVE_BUDGET" live:"yes" about:"how many checks the adaptive accounts of all replicas share: N/s, N/m or N/h, such as 5000/s; their intervals become longer or shorter, within the bounds of their cadences, so that messages wait as little as possible in all; needed by pollers and monitors; unset: each account's own checks decide"`
	MemoryMark        int           `env:"ROUNDS_MEMORY_MARK,default=85" min:"10" max:"100" about:"percentage of Redis' maxmemory from which no messages are accepted: accounts are put off, and are due again later"`
	AccountShare      int           `env:"ROUNDS_ACCOUNT_SHARE,default=64" min:"0" max:"1048576" about:"about how many MiB of messages one account may bring in an hour, and at once; the rest is fetched later; 0: any number"`
	SecretsDir        string        `env:"ROUNDS_SECRETS_DIR" about:"directory with one file for each secret: NAME for records, service.NAME for webhooks, callbacks and ROUNDS_FILES, NAME.binding for where it may be sent"`
	SecretsUnbound    string        `env:"ROUNDS_SECRETS_UNBOUND,default=allow" oneof:"allow refuse" about:"whether records may use a secret that is bound to no hosts: allow, or refuse"`
	SecretsPlainHosts string        `env:"ROUNDS_SECRETS_PLAIN_HOSTS" about:"private hosts to which secrets may be sent without TLS, separated by commas, each as HOST or HOST:PORT, *.HOST for all below; loopback is always allowed, and a public address never"`
}

// These are the choices of ROUNDS_SECRETS_UNBOUND.
const (
	Allow  = "allow"
	Refuse = "refuse"
)

// Monitor has the settings of the role monitor.
type Monitor struct {
	LongTimeout      time.Duration `env:"ROUNDS_LONG_TIMEOUT,default=5m" min:"20ms" max:"24h" about:"after how long a claimed account counts as stuck and is requeued; at least twice ROUNDS_CHECK_TIMEOUT"`
	SweepInterval    time.Duration `env:"ROUNDS_SWEEP_INTERVAL,default=5s" min:"10ms" max:"1h" about:"how often the monitor looks for stuck accounts"`
	DeadAfter        time.Duration `env:"ROUNDS_DEAD_AFTER,default=10s" min:"30ms" max:"24h" about:"after how long a silent replica counts as dead; at least three times ROUNDS_HEARTBEAT_INTERVAL"`
	QuarantineAfter  int           `env:"ROUNDS_QUARANTINE_AFTER,default=5" min:"0" max:"1000" about:"how often in a row an account may be taken from replicas that die or hang before it is parked; 0: any number of times"`
	ProbeParked      time.Duration `env:"ROUNDS_PROBE_PARKED,default=0s" min:"0s" max:"8760h" about:"after how long an account that is parked for failures or a refused credential is tried once more; 0: never, except for kinds whose third party retains messages for a limited time"`
	AuditInterval    time.Duration `env:"ROUNDS_AUDIT_INTERVAL,default=10m" min:"1s" max:"8760h" about:"the shortest time between two audits of whether every account is in exactly one place"`
	AuditRepair      bool          `env:"ROUNDS_AUDIT_REPAIR,default=false" about:"whether these audits also repair what they find"`
	MessageRetention time.Duration `env:"ROUNDS_MESSAGE_RETENTION,default=168h" min:"0s" max:"87600h" about:"how long found messages are retained, or longer if a consumer group has not handled them; 0: for ever"`
	MessagesKept     int           `env:"ROUNDS_MESSAGES_KEPT,default=10000000" min:"0" max:"1000000000" about:"about how many found messages are retained, or more if a consumer group has not handled them; 0: any number"`
	MessagesMemory   int           `env:"ROUNDS_MESSAGES_MEMORY,default=0" min:"0" max:"1073741824" about:"about how many MiB of Redis' memory found messages may take, or more if a consumer group has not handled them; 0: half of its maxmemory, less if other data fills it, and any number if it has none"`
	DeadRetention    time.Duration `env:"ROUNDS_DEAD_LETTER_RETENTION,default=720h" min:"0s" max:"87600h" about:"how long dead letters are retained; 0: for ever"`
	DeadKept         int           `env:"ROUNDS_DEAD_LETTERS_KEPT,default=100000" min:"0" max:"1000000000" about:"about how many dead letters are retained, the newest of each shard; 0: any number"`
}

// Delivery has the settings of the role delivery.
type Delivery struct {
	WebhooksFile string `env:"ROUNDS_WEBHOOKS_FILE" live:"yes" about:"JSON file with the endpoints to which the role delivery delivers messages"`
	WebhooksFrom string `env:"ROUNDS_WEBHOOKS_FROM,default=start" oneof:"start now" about:"where a new endpoint begins: start, with the oldest stored message, or now"`
	// Objective is for alerts.
	Objective time.Duration `env:"ROUNDS_DETECTION_OBJECTIVE,default=0s" min:"0s" max:"24h" about:"within how long of the third party's time 99 of 100 messages should be acknowledged, for the alerts RoundsDetectionSlow…; longer than the cadences; 0: no such alerts"`
}

// Keeping says which files that messages carry are kept, how many and how long.
type Keeping struct {
	Policy       string        `env:"ROUNDS_FILES_POLICY" about:"when files are fetched, by kind, separated by commas: KIND=all, when their message is found; KIND=demand, when somebody asks for them; KIND=none, never; kinds that are not named: all where the third party forgets files, otherwise demand"`
	Most         int           `env:"ROUNDS_FILES_MAX,default=100" min:"1" max:"5120" about:"how many MiB a file may have; a larger one is not kept"`
	AtOnce       int           `env:"ROUNDS_FILES_AT_ONCE,default=8" min:"1" max:"256" about:"how many files a process fetches at once, of one account half as many"`
	Quota        int           `env:"ROUNDS_FILES_QUOTA,default=0" min:"0" max:"1073741824" about:"how many MiB all files together may take; 0: any number"`
	AccountQuota int           `env:"ROUNDS_FILES_ACCOUNT_QUOTA,default=0" min:"0" max:"1073741824" about:"how many MiB the files of one account may have; 0: any number"`
	WhenFull     string        `env:"ROUNDS_FILES_WHEN_FULL,default=stop" oneof:"stop remove-read" about:"what happens when a quota is reached: stop, fetching stops until there is room; remove-read, files that somebody has read are removed, the oldest first"`
	Retention    time.Duration `env:"ROUNDS_FILES_RETENTION,default=168h" min:"0s" max:"87600h" about:"how long files are retained, or longer while their message or a dead letter of it is; 0: for ever"`
	Links        time.Duration `env:"ROUNDS_FILES_LINKS,default=24h" min:"0s" max:"720h" about:"how long a link to a file is valid that webhooks and streams bring with a message and that needs no key; 0: they bring none"`
}

// RemoveRead is the choice of ROUNDS_FILES_WHEN_FULL that makes room.
const RemoveRead = "remove-read"

// File names the file with settings that the environment lacks.
type File struct {
	Path string `env:"ROUNDS_SETTINGS_FILE" about:"file with settings and secrets that neither flags nor the environment set, one NAME=VALUE a line; SIGHUP and rounds reload read it again"`
}

// Log says what is logged, and how.
type Log struct {
	Level  slog.Level `env:"ROUNDS_LOG_LEVEL,default=info" live:"yes" oneof:"debug info warn error" about:"the lowest level that is logged: debug, info, warn or error"`
	Format string     `env:"ROUNDS_LOG_FORMAT,default=auto" oneof:"auto text json" about:"auto: text on a terminal, else JSON"`
}

// The roles that a process may have.
const (
	RoleAPI      = "api"
	RolePoller   = "poller"
	RoleMonitor  = "monitor"
	RoleDelivery = "delivery"
)

// Roles are the roles of one process, in the order of the constants.
type Roles []string

// UnmarshalText reads roles separated by commas.
func (r *Roles) UnmarshalText(text []byte) error {
	given := strings.Split(string(text), ",")
	for i := range given {
		given[i] = strings.TrimSpace(given[i])
		if !slices.Contains([]string{RoleAPI, RolePoller, RoleMonitor, RoleDelivery}, given[i]) {
			return fmt.Errorf("no role is named %q", given[i])
		}
	}
	*r = nil
	for _, role := range []string{RoleAPI, RolePoller, RoleMonitor, RoleDelivery} {
		if slices.Contains(given, role) {
			*r = append(*r, role)
		}
	}
	return nil
}

// Files returns the files that settings name.
func (s Settings) Files() []string {
	var files []string
	for _, setting := range all() {
		if path := reflect.ValueOf(s).FieldByIndex(setting.index).String(); strings.HasSuffix(setting.Name, "_FILE") && path != "" {
			files = append(files, path)
		}
	}
	return files
}

// Has reports whether the process has a role.
func (r Roles) Has(role string) bool { return slices.Contains(r, role) }

// Mode is a file's permissions.
type Mode fs.FileMode

// UnmarshalText reads three or four octal digits.
func (m *Mode) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 8, 32)
	if err != nil || n > 0o777 || len(text) < 3 || len(text) > 4 {
		return errors.New("must be octal digits such as 660")
	}
	*m = Mode(n)
	return nil
}

// String returns them in octal.
func (m Mode) String() string { return fmt.Sprintf("%03o", uint32(m)) }
