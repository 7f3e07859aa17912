// Package monitor finds accounts that nobody is checking any more and puts them
// back in line. It looks at the old end of every processing_list, and takes an
// entry for stale when it was claimed longer ago than the long timeout, or when
// its replica is dead. Any number of monitors may run, and none is needed for
// the ring to turn: what two of them do to one entry comes out as one requeue.
//
// Besides, it trims the message streams by age and counts accounts by place.
package monitor
