// Package monitor finds accounts that nobody is checking any more and puts them
// back in line. It looks at the old end of every processing_list, and takes an
// entry for stale when it was claimed longer ago than the long timeout, or when
// its replica is dead. Any number of monitors may run, and none is needed for
// the ring to turn: what two of them do to one entry comes out as one requeue.
//
// An account that is requeued again and again with no check returned in between
// ends in quarantine.
//
// What only one need do, one monitor does, the one on duty: it counts accounts by
// place, scans for staleness, audits the conservation law, looks how far consumer
// groups have got, trims the message streams by age and number, but never past
// what a group has not dealt with, and, if told to, tries parked accounts again.
// What it finds, its metrics show; those of the others have no value. Should two
// believe to be on duty, it costs more and harms nothing.
package monitor
