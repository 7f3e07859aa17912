package span

// The attributes of OpenTelemetry's semantic conventions, version 1.43.0: those of HTTP and of errors
// are stable, those of messaging are in development and stay as they are here until somebody moves them
// (https://github.com/open-telemetry/semantic-conventions/blob/v1.43.0/docs/messaging/messaging-spans.md).
const (
	ErrorType = "error.type"

	HTTPMethod    = "http.request.method"
	HTTPStatus    = "http.response.status_code"
	ServerAddress = "server.address" // a host's name, or an address
	ServerPort    = "server.port"
	URLScheme     = "url.scheme"

	MessagingSystem      = "messaging.system" // always System
	MessagingOperation   = "messaging.operation.name"
	MessagingType        = "messaging.operation.type" // Send or Process
	MessagingDestination = "messaging.destination.name"
	MessagingGroup       = "messaging.consumer.group.name"
	MessagingMessage     = "messaging.message.id" // the position in the stream, or the send's id
	MessagingCount       = "messaging.batch.message_count"
)

// Values of attributes.
const (
	System  = "rounds"   // of MessagingSystem
	Send    = "send"     // of MessagingType
	Process = "process"  // of MessagingType
	Stream  = "messages" // of MessagingDestination: the streams of found messages
	Outbox  = "sends"    // of MessagingDestination: the outbox
)

// The attributes of rounds.
const (
	AccountID   = "rounds.account.id"
	AccountKind = "rounds.account.kind"
	Shard       = "rounds.shard"
	Replica     = "rounds.replica"
	CheckID     = "rounds.check.id"
	Late        = "rounds.check.late_ms" // how much later than due it began
	Held        = "rounds.check.held"    // a third party may hold its calls
	Found       = "rounds.messages"      // how many were found
	Outcome     = "rounds.outcome"       // a word of the metrics
	Attempt     = "rounds.attempt"       // 1 for the first
)
