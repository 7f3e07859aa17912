// Package nats stores messages in a stream of NATS JetStream. It is the type nats of endpoints.
//
// The data of a message is the payload that package sink describes, and its header Nats-Msg-Id is the
// key by which a receiver recognises a message. The server stores each id once within the stream's
// duplicate window (duplicate_window, which is two minutes by default), so a message whose outcome is
// unknown is sent again, by this process or another. It is stored twice only if it is sent again later
// than that.
//
// A message is acknowledged when the server says that the stream has it. Messages of one account are
// sent one after another, because a server that has lost one might take the next.
//
// While the servers are away, refuse the login, or do not have the stream, messages wait. A message
// that is larger than max_payload of the server or max_msg_size of the stream is a dead letter at once.
package nats
