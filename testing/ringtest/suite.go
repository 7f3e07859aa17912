// Package ringtest is the conformance suite of package circulate: what the ring promises,
// step by step, on any server that it should run on. It reads Redis itself, by the key
// names that the protocol documents.
package ringtest

import (
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/testing/redistest"
)

// Run tests everything that the ring promises on a server. Each test has a namespace of
// its own, so that all can run on one server at once.
func Run(t *testing.T, server redistest.Redis) {
	t.Helper()
	Part(t, server, "")
}

// Part runs those tests of [Run] whose names begin with a prefix, for the package that they
// are about.
func Part(t *testing.T, server redistest.Redis, prefix string) {
	t.Helper()
	// These run before the others: with thousands of entries they block an embedded
	// server for so long that steps of others would time out.
	alone := map[string]bool{"return while thousands are in flight": true, "return of many equals many returns": true}
	// The group ends only when the parallel tests in it have.
	t.Run("ring", func(t *testing.T) {
		ran := 0
		for name, test := range map[string]func(*fixture){
			"claim takes the longest waiting first":               claimInOrder,
			"claim is stamped by Redis' clock":                    claimStamped,
			"claim promotes what is due and no more":              claimPromotesDue,
			"claim says when the next is due":                     claimNextDue,
			"claim ahead":                                         claimAhead,
			"claim drops what is void":                            claimDropsVoid,
			"claim takes one of two copies":                       claimTakesOneCopy,
			"claim sets garbage aside":                            claimSetsGarbageAside,
			"what is set aside is bounded":                        setAsideBounded,
			"claim tells of changed records":                      claimTellsChanges,
			"return writes all of it":                             returnWritesAll,
			"return of a lost claim writes nothing":               returnLostWritesNothing,
			"return twice is written once":                        returnTwice,
			"return at once goes to the queue":                    returnAtOnce,
			"return tells item by item":                           returnItemByItem,
			"return of many that bring different things":          returnMixed,
			"return of many equals many returns":                  returnManyEqualsSingle,
			"return while thousands are in flight":                returnFromLongList,
			"cursor short and long":                               cursorShortAndLong,
			"failures and strikes":                                failuresAndStrikes,
			"lanes, urgent first, and none starves":               lanes,
			"lanes of all steps":                                  lanesOfSteps,
			"lanes of what is due":                                lanesOfDue,
			"a claim passes by what was handed over":              kindsPassedBy,
			"handing over what was lost moves nothing":            handOverLost,
			"what waits by kind, in its order":                    kindsInOrder,
			"what waits by kind keeps nobody from being taken":    kindsShare,
			"a kind that nobody checks is recalled":               kindsRecalled,
			"a change of the record may change the kind":          kindsOfChanged,
			"handing over wakes those that wait for the kind":     handOverWakes,
			"an audit counts what waits by kind":                  kindsAudited,
			"what waits by kind is counted and found":             kindsTold,
			"what waits by kind moves to new shards":              kindsMove,
			"garbage among what waits by kind":                    kindsGarbage,
			"history and errors":                                  history,
			"probe keeps what it failed with":                     probe,
			"progress writes and renews":                          progressRenews,
			"progress counts a success":                           progressSucceeds,
			"progress of a lost claim writes nothing":             progressLost,
			"release puts next in line":                           releaseNextInLine,
			"release of what is held unknown":                     releaseHeld,
			"release of a lost claim moves nothing":               releaseLost,
			"requeue takes from the holder":                       requeueTakes,
			"the bare pattern's doubling does not happen":         noDoubling,
			"the bare pattern's loss does not happen":             noLoss,
			"a late push after a return is void":                  latePushIsVoid,
			"a monitor that stops half way leaves no double":      halfRequeue,
			"requeue puts back what MULTI took out for nothing":   requeueIntoMistyped,
			"requeue sets garbage aside":                          requeueSetsGarbageAside,
			"register once":                                       registerOnce,
			"one account by its id":                               oneAccount,
			"upsert changes and fences":                           upsertFences,
			"upsert forgets cursors, short and long":              upsertForgets,
			"upsert revives the failed and not the paused":        upsertRevives,
			"upsert of an account that is as it was seen":         upsertAsSeen,
			"register with what an account brings":                registerBegins,
			"deregister leaves nothing":                           deregisterLeavesNothing,
			"an id registered again does not revive an old entry": reregisterDoesNotRevive,
			"pause and resume":                                    pauseAndResume,
			"resume anew":                                         resumeAnew,
			"a change keeps what is passed over":                  changeKeepsSkip,
			"resume for one reason":                               resumeForReason,
			"park who is as was seen":                             parkIf,
			"parked accounts, page by page":                       parkedPages,
			"turn tells what is ahead":                            turns,
			"nudge moves earlier, never later":                    nudgeEarlier,
			"nudge of a claimed account":                          nudgeClaimed,
			"nudge brings a hint once":                            nudgeHint,
			"nudges merge":                                        nudgesMerge,
			"nudge leaves a turn in line":                         nudgeInLine,
			"a key of a wrong type is set aside":                  mistypedKeys,
			"tickets are never used twice":                        ticketsNeverTwice,
			"tickets of a batch are those of each account alone":  ticketsShared,
			"a key of a wrong type is found before any write":     mistypedBetween,
			"claims of any ids and cursors are told apart":        repliesApart,
			"tickets of a lost sequence are not used again":       sequenceLost,
			"a ticket sequence that is none":                      sequenceSpoilt,
			"a stream that takes nothing more":                    streamExhausted,
			"look passes over void entries":                       lookPastVoid,
			"return of many that are lost":                        returnManyLost,
			"many silent replicas":                                manySilent,
			"group, a token given twice":                          leaseTokenTwice,
			"scripts flushed are loaded again":                    scriptFlush,
			"messages are trimmed but not unread":                 trimMessages,
			"messages are trimmed to a number":                    trimToANumber,
			"replicas":                                            replicas,
			"processes attend and leave":                          attendance,
			"processes say of themselves what they are":           members,
			"only what is due earlier wakes":                      wakes,
			"limit, the rate holds":                               rateHolds,
			"limit, the denied come back in order":                rateLine,
			"limit, who comes back late":                          rateJitter,
			"limit, no herd after an outage":                      rateOutage,
			"limit, a refund":                                     rateRefund,
			"limit, leases hold":                                  leasesHold,
			"limit, leases of the crashed expire":                 leaseCrash,
			"limit, slots follow how long leases are held":        leaseHold,
			"limit, a refund of leases":                           leaseRefund,
			"limit, a change of the limit":                        limitChanges,
			"limit, several at once":                              limitsTogether,
			"limit, what processes see":                           limitsSeen,
			"limit, bad input":                                    limitBadInput,
			"group reads each message once":                       groupReadsOnce,
			"group from the end":                                  groupFromEnd,
			"group, a read is bounded":                            groupReadIsBounded,
			"group, a lease is alone":                             leaseIsAlone,
			"group redelivers":                                    groupRedelivers,
			"group, dead letters":                                 deadLetters,
			"group, a skip":                                       groupSkip,
			"endpoints, orders":                                   endpointOrders,
			"endpoints, reports":                                  endpointReports,
			"group, an effect once":                               effectOnce,
			"group, an effect among many":                         effectAmongMany,
			"group, an effect remembers":                          effectRemembers,
			"group states":                                        groupStates,
			"group members":                                       groupMembers,
			"group awaits":                                        groupAwaits,
			"groups together":                                     groupTogether,
			"group, bad input":                                    groupBadInput,
			"credential, one fetches it":                          credentialOnce,
			"credential, its life":                                credentialLives,
			"credential, the refused one is dropped":              credentialDrops,
			"credential, a refused secret":                        credentialRefused,
			"credential, its owner is paused":                     ownerPauses,
			"credential, what is listed":                          credentialListed,
			"credential, the paused owners":                       ownersListed,
			"credential, with its value in a backup":              credentialsKept,
			"credential, bad input":                               credentialBadInput,
			"session, its life":                                   sessionLives,
			"session, it ends by itself":                          sessionEnds,
			"session, there are so many":                          sessionsAreBounded,
			"session, one takes it":                               sessionIsTakenOnce,
			"session, bad input":                                  sessionBadInput,
			"session, one replaces it":                            sessionIsReplaced,
			"keys of the API":                                     apiKeys,
			"keys of the API, bounded":                            apiKeysFull,
			"keys of the API, a secret":                           apiKeysSecret,
			"keys of the API, spoilt":                             apiKeysMistyped,
			"vault keeps a value under a name":                    vaultKeeps,
			"vault, page by page":                                 vaultPages,
			"vault, there is so much room":                        vaultIsBounded,
			"timeline, what the steps write":                      timelineSteps,
			"timeline, failures in a row":                         timelineFailures,
			"timeline, failing again and again":                   timelineFlapping,
			"timeline, an ordinary cycle writes nothing":          timelineOrdinary,
			"timeline, a requeue that came too late":              timelineCompensated,
			"timeline is capped":                                  timelineCapped,
			"timeline, finds of many":                             timelineFinds,
			"timeline, page by page":                              timelinePages,
			"timeline, spoilt":                                    timelineSpoilt,
			"timeline, bad input":                                 timelineBadInput,
			"timeline, while shards change":                       timelineReshard,
			"staleness":                                           staleness,
			"a scan tells what fails and what is late":            slowness,
			"one is on duty":                                      duties,
			"audit finds nothing in a healthy ring":               auditHealthy,
			"audit finds the lost":                                auditFindsLost,
			"audit finds the doubled":                             auditFindsDoubled,
			"audit finds orphans, garbage, missing records":       auditFindsTheRest,
			"audit leaves alone what has changed since":           auditLeavesChanged,
			"audit rebuilds from the records":                     auditRebuilds,
			"audit finds what is due too late":                    auditFindsBeyond,
			"clock, that it went back is told":                    clockBack,
			"clock, what is due too late is moved":                clockFar,
			"clock, what else ends by it is brought nearer":       clockRewind,
			"audit of long lists":                                 auditLongLists,
			"audit under load finds nothing":                      auditUnderLoad,
			"reshard keeps all that an account has":               reshardKeepsAll,
			"reshard passes over void entries":                    reshardVoid,
			"reshard fences rings from before":                    reshardFencesTheOld,
			"reshard, steps find accounts wherever they are":      reshardSteps,
			"reshard, a mover that stops anywhere":                reshardCrashes,
			"reshard, each account comes once":                    reshardOnce,
			"reshard, a server that loses writes":                 reshardLosses,
			"reshard keeps claims away for a while":               reshardGate,
			"reshard keeps the order of messages":                 reshardOrder,
			"reshard, a group begun from now":                     reshardFromNow,
			"reshard carries dead letters":                        reshardDead,
			"reshard given up":                                    reshardAbort,
			"reshard, no return":                                  reshardNoReturn,
			"reshard given up by one who stops anywhere":          reshardAbortCrashes,
			"reshard, random walk":                                reshardWalk,
			"trying a write writes nothing":                       tryWrite,
			"meta must agree":                                     metaAgrees,
			"bad input is refused":                                badInput,
			"random walk":                                         randomWalk,
		} {
			if !strings.HasPrefix(name, prefix) {
				continue
			}
			ran++
			t.Run(name, func(t *testing.T) {
				if !alone[name] {
					t.Parallel()
				}
				test(newFixture(t, server))
			})
		}
		if ran == 0 {
			t.Errorf("no test's name begins with %q", prefix)
		}
	})
}
