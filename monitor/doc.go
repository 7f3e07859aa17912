// Package monitor finds accounts that nobody is checking any more and puts them back in
// line. It looks at the old end of every processing_list. An entry is stale when it was
// claimed longer ago than the long timeout, or when its replica is dead. Any number of
// monitors may run, and the ring turns without any. When two of them handle the same
// entry, the result is one requeue.
//
// An account that is requeued again and again without a returned check ends in
// quarantine.
//
// Some work needs only one monitor, and the monitor on duty does it. It counts accounts
// by place, scans for staleness, audits the conservation law, measures how far consumer
// groups have read, and trims the message streams by age and number, but never messages
// that a group has not dealt with. It also tries parked accounts again, if that is
// configured. Its metrics show its findings; the same metrics of other monitors have no
// value. If two monitors believe that they are on duty, that costs more and does no harm.
package monitor
