package accounts

import "github.com/rounds-dev/rounds/circulate"

// The priorities of an account. They decide which of the due accounts of a shard are
// checked first. See circulate.Priority for what each promises.
const (
	PriorityUrgent = "urgent"
	PriorityNormal = "normal"
	PriorityLow    = "low"
)

func priorities() map[string]circulate.Priority {
	return map[string]circulate.Priority{
		PriorityUrgent: circulate.Urgent,
		PriorityNormal: circulate.Normal,
		PriorityLow:    circulate.Low,
	}
}

var priorityFault = Fault{Field: "priority", Reason: `must be "urgent", "normal" or "low"`}

// lane returns the lane of message_queue that the account waits in.
func (a Account) lane() circulate.Priority { return priorities()[a.Priority] }

// laneWord returns the word for a lane. A lane that this version does not know counts as
// normal, as it does in the ring.
func laneWord(lane circulate.Priority) string {
	for word, p := range priorities() {
		if p == lane {
			return word
		}
	}
	return PriorityNormal
}
