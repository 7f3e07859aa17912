// Package callback obeys third parties that call us when there is something new: an event
// about an account has that account checked at once.
//
// Read reads the configuration of the addresses that are called, New makes a Receiver of
// them, and package accounts/api serves it. WeCom is the one third party so far; how its
// callbacks are signed and encrypted is package wecomcrypt. A caller that may not call
// learns nothing from the answer but that it is refused.
//
// A callback only hastens a check. It brings no messages, and an account without callbacks is
// checked by its cadence as ever.
package callback
