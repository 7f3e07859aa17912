package delivery

// Sink is a Handler that stores messages in a place outside of Redis: a webhook's receiver, files,
// a database, a broker. What differs from any Handler is who may be to blame:
//
//   - A nil error means that the place has the message and will not lose it.
//   - A place that cannot be reached, or takes nothing now, is a Later with a Target, and counts for
//     no message. So is an unknown outcome, unless the message itself may be the cause.
//   - A message that the place can never take is a Dead, or any other error, and holds up nothing
//     but its account.
//
// An unknown outcome is never nil: the message is delivered again, and may then be stored twice if
// the place cannot tell. Each sink says where that happens.
//
// Prepare connects or creates what is missing. It should return a Later for everything that may get
// better by itself, because any other error ends the consumer.
type Sink interface {
	Preparer
	// Close releases what the sink has open, after its consumer has ended. Messages that were
	// handled are stored by then, so its error loses nothing.
	Close() error
}
