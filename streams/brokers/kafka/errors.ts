import { type Reason, Undelivered } from '../../undelivered.ts'

/** Error codes of the protocol that are told apart here. https://kafka.apache.org/protocol#protocol_error_codes */
export const codes = {
  offsetOutOfRange: 1,
  unknownTopic: 3,
  leaderNotAvailable: 5,
  notLeader: 6,
  requestTimedOut: 7,
  messageTooLarge: 10,
  networkException: 13,
  coordinatorLoading: 14,
  coordinatorNotAvailable: 15,
  notCoordinator: 16,
  invalidTopic: 17,
  recordListTooLarge: 18,
  notEnoughReplicas: 19,
  notEnoughReplicasAfterAppend: 20,
  illegalGeneration: 22,
  unknownMember: 25,
  rebalancing: 27,
  topicUnauthorized: 29,
  groupUnauthorized: 30,
  clusterUnauthorized: 31,
  topicExists: 36,
  outOfOrderSequence: 45,
  duplicateSequence: 46,
  invalidProducerEpoch: 47,
  invalidProducerId: 49,
  storageError: 56,
  unknownProducerId: 59,
  fencedLeaderEpoch: 74,
  unknownLeaderEpoch: 75,
  memberIdRequired: 79,
  invalidRecord: 87
} as const

const names = new Map<number, string>(
  Object.entries(codes).map(([name, code]) => [code, name.replace(/[A-Z]/g, letter => ` ${letter.toLowerCase()}`)])
)

/** The cluster answered with an error code. */
export class KafkaFault extends Error {
  readonly code: number
  constructor(code: number, what: string) {
    super(`${what}: ${names.get(code) ?? 'error'} (${code})`)
    this.code = code
  }
}

/** The partition's leader is another one by now, or none yet: what was asked may be asked again. */
const isMoved = new Set<number>([
  codes.leaderNotAvailable,
  codes.notLeader,
  codes.unknownTopic,
  codes.storageError,
  codes.fencedLeaderEpoch,
  codes.unknownLeaderEpoch,
  // listener not found, replica not available
  72,
  9
])
export const hasMoved = (code: number): boolean => isMoved.has(code)

/** Written perhaps, or surely but not by all who should. */
const isUnclear = new Set<number>([
  codes.requestTimedOut,
  codes.notEnoughReplicasAfterAppend,
  codes.networkException,
  // the broker's own "unknown error" comes from anywhere in its path
  -1
])

/** What only an operator can mend: names, rights, logins, versions, codecs, policies. */
const isSetting = new Set<number>([
  codes.unknownTopic,
  codes.invalidTopic,
  21,
  codes.topicUnauthorized,
  codes.groupUnauthorized,
  codes.clusterUnauthorized,
  33,
  34,
  35,
  37,
  38,
  40,
  43,
  44,
  58,
  76
])

export function reasonOf(code: number): Reason {
  if (code === codes.messageTooLarge || code === codes.recordListTooLarge) return 'too_large'
  if (code === codes.invalidRecord) return 'invalid'
  if (isSetting.has(code)) return 'misconfigured'
  if (isUnclear.has(code)) return 'unknown'
  if (hasMoved(code) || code === codes.notEnoughReplicas) return 'unavailable'
  return 'failed'
}

/** The code within an error of kafkajs or of ours; 0: it has none. */
export function codeOf(error: unknown): number {
  const code = error instanceof Error && 'code' in error ? error.code : 0
  return typeof code === 'number' ? code : 0
}

/** A login that was refused, or a certificate: trying again changes nothing. */
export function isRefused(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  if (error.name === 'KafkaJSSASLAuthenticationError' || error.name === 'KafkaJSServerDoesNotSupportApiKey') return true
  const code = 'code' in error ? error.code : undefined
  if (typeof code === 'number') return isSetting.has(code)
  return typeof code === 'string' && /CERT|SSL|TLS|ISSUER|SELF_SIGNED|LINKLOCAL/.test(code)
}

export function undelivered(reason: Reason, error: unknown): Undelivered {
  if (error instanceof Undelivered) return error
  return new Undelivered(reason, error instanceof Error ? error.message : String(error), { cause: error })
}

export const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))
