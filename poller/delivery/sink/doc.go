// Package sink has what all destinations of messages have in common, whatever they are: an
// [Endpoint] with its name, type and filter, the file that declares endpoints ([Read]), the form in
// which messages leave ([Encode]), and the key by which a receiver recognises one ([Key]).
//
// A [Type] is a kind of destination, such as webhook or file. It reads its own fields of an
// endpoint and opens its [delivery.Sink]. Programs add types of their own as they add kinds of
// accounts.
//
// # What is stored
//
// The same object in each place, on one line. Webhooks have the id in a header instead:
//
//	{"id":"msg_…","type":"message.found","timestamp":"2026-03-01T12:00:00Z","data":{
//	  "account":"…","kind":"feed","id":"…","type":"…","time":"2026-03-01T12:00:00Z","data":{…},
//	  "handle":"12:1767225600000-0"}}
//
// With the format cloudevents it is a CloudEvents 1.0 event in JSON
// (https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/formats/json-format.md), whose data
// is the same:
//
//	{"specversion":"1.0","id":"msg_…","source":"/rounds/NAMESPACE","type":"dev.rounds.message.found",
//	  "subject":"ACCOUNT","time":"2026-03-01T12:00:00Z","datacontenttype":"application/json","data":{…}}
//
// With cloudevents-binary, which only webhooks have, the body is the data alone, and the other members
// are the headers ce-specversion, ce-id, ce-source, ce-type, ce-subject and ce-time.
//
// # Filters
//
// An endpoint gets the messages for which all its conditions hold: kinds, types, labels of the account
// as they are now, and when, an [Expression]. While labels are unknown, messages wait. A message to which
// the expression cannot be applied is a dead letter.
package sink
