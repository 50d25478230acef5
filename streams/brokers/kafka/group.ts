import type { Log } from '../../../config/world.ts'
import type { Joining, Place, Position, Reading, Taker } from '../../broker.ts'
import { Undelivered } from '../../undelivered.ts'
import { within } from '../../within.ts'
import type { Cluster } from './cluster.ts'
import { codeOf, codes, isRefused, KafkaFault, textOf } from './errors.ts'
import { Fetching } from './fetching.ts'
import { commitOffsets, type Member, placeName, positionsOf } from './groupOffsets.ts'
import { assign, assignmentOf, type Joined, protocols, topicsOf } from './groupProtocol.ts'
import type { Link } from './link.ts'
import type { Node } from './node.ts'

const askMs = 5_000
const leaveMs = 1_000

/** What a membership holds until the group is parted anew. */
interface Membership extends Member {
  readonly node: Node
  readonly isLeader: boolean
  /** Partitions of each topic when the group was parted; 0: the topic was missing. */
  readonly counts: ReadonlyMap<string, number>
}

/**
 * A member of a consumer group (the classic protocol): joins, is given partitions and reads them, keeps its place by heartbeats of its
 * own, joins again when the group is parted anew, and begins again after whatever fault.
 */
export class Group implements Reading {
  readonly #cluster: Cluster
  readonly #log: Log
  readonly #how: Joining
  readonly #to: Taker
  readonly #refreshMs: number
  readonly #fetching: Fetching
  #memberId = ''
  #generation = -1
  #membership: Membership | null = null
  /** Waits long in JoinGroup, so it is one of its own. */
  #link: Link | null = null
  #linkNode: Node | null = null
  #wake: (() => void) | null = null
  #isClosed = false

  constructor(cluster: Cluster, log: Log, how: Joining, refreshMs: number, to: Taker) {
    this.#cluster = cluster
    this.#log = log
    this.#how = how
    this.#to = to
    this.#refreshMs = refreshMs
    this.#fetching = new Fetching(cluster, log, how, to, () => to.assigned(this.#fetching.positions()))
    void this.#run()
  }

  pause(place: Place): void {
    this.#fetching.pause(place)
  }

  resume(place: Place): void {
    this.#fetching.resume(place)
  }

  async commit(positions: readonly Position[]): Promise<void> {
    const membership = this.#membership
    if (this.#isClosed || membership === null) throw new Undelivered('unavailable', 'not a member of the group now')
    const held = new Set(this.#fetching.positions().map(placeName))
    const mine = positions.filter(position => held.has(placeName(position)))
    if (mine.length > 0) {
      // Not over our own connection, where a JoinGroup may wait.
      const link = await (this.#linkNode ?? membership.node).shared('ask')
      await commitOffsets(link, this.#how.group, membership, mine)
    }
    if (mine.length < positions.length) throw new Undelivered('unavailable', 'a partition belongs to another member')
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#fetching.close()
    this.#wake?.()
    this.#link?.close()
    const node = this.#linkNode
    if (this.#memberId === '' || node === null || node.fault !== null) return
    try {
      const link = await node.shared('ask')
      const asked = { groupId: this.#how.group, memberId: this.#memberId }
      const left = link.call('LeaveGroup', asked, 5_000, { isUnchecked: true })
      // Nobody waits longer, but the connection belongs to others too. If it fails, the group notices when the session is over.
      await within(left, leaveMs, this.#cluster.clock)
    } catch {
      // No connection: the same.
    }
  }

  async #run(): Promise<void> {
    await this.#pause(0)
    for (let waitMs = 100; !this.#isClosed; ) {
      try {
        await this.#join()
        waitMs = 100
        await this.#keep()
      } catch (error) {
        if (this.#isClosed) return
        this.#stumbled(error)
        const code = codeOf(error)
        // Parted anew, or a coordinator that has just moved: that is how groups work.
        if (code === codes.rebalancing || code === codes.memberIdRequired || code === codes.illegalGeneration) continue
        if (code === codes.unknownMember && waitMs === 100) waitMs = 200
        else {
          const isQuiet =
            code === codes.notCoordinator || code === codes.coordinatorLoading || code === codes.coordinatorNotAvailable
          if (!isQuiet || waitMs > 1_000) this.#fetching.fault(textOf(error))
          await this.#pause(waitMs)
          // A node that is down is probed by others; what was refused will be refused again for some time.
          waitMs = Math.min(waitMs * 2, isRefused(error) ? 30_000 : 2_000)
        }
      }
    }
  }

  #stumbled(error: unknown): void {
    const code = codeOf(error)
    this.#log.debug('kafka group', { group: this.#how.group, reason: textOf(error) })
    if (code === codes.unknownMember) this.#memberId = ''
    if (code === codes.rebalancing) return
    if (code === codes.notCoordinator || code === 0) {
      this.#link?.close()
      this.#link = null
    }
  }

  /** Until the group has been parted, and reading has begun. @throws KafkaFault, LinkLost, Undelivered */
  async #join(): Promise<void> {
    const { group, topics, sessionMs, rebalanceMs } = this.#how
    const link = await this.#coordinator()
    const node = this.#linkNode!
    const asked = {
      groupId: group,
      sessionTimeout: sessionMs,
      rebalanceTimeout: rebalanceMs,
      memberId: this.#memberId,
      protocolType: 'consumer',
      groupProtocols: protocols(topics)
    }
    const isMember = this.#memberId !== ''
    const joinMs = Math.max(sessionMs, rebalanceMs) + askMs
    const joined = await link.call<Joined & { errorCode: number }>('JoinGroup', asked, joinMs, { isUnchecked: true })
    if (joined.memberId !== '') this.#memberId = joined.memberId
    if (joined.errorCode !== 0) throw new KafkaFault(joined.errorCode, `group ${group}`)
    // From here on others may read what we had. What stays ours over one parting goes on: nobody else had it between.
    const before = isMember ? this.#fetching.positions() : []
    this.#fetching.assign([])
    const isLeader = joined.leaderId === joined.memberId
    const counts = await this.#counts(isLeader ? topicsOf(joined, topics) : topics)
    const synced = await link.call<{ errorCode: number; memberAssignment: Buffer }>(
      'SyncGroup',
      {
        groupId: group,
        generationId: joined.generationId,
        memberId: joined.memberId,
        groupAssignment: isLeader ? assign(joined, counts) : []
      },
      joinMs,
      { isUnchecked: true }
    )
    if (synced.errorCode !== 0) throw new KafkaFault(synced.errorCode, `group ${group}`)
    const isNext = joined.generationId === this.#generation + 1
    this.#generation = joined.generationId
    const earlier = this.#membership
    const membership = { node, generation: joined.generationId, memberId: joined.memberId, isLeader, counts }
    const places = assignmentOf(synced.memberAssignment, topics)
    const kept = isNext ? before : []
    const known = earlier?.counts ?? null
    const positions = await positionsOf(this.#cluster, link, this.#how, membership, places, kept, known)
    if (this.#isClosed) return
    this.#membership = membership
    this.#to.assigned(positions)
    this.#fetching.assign(positions)
    const missing = topics.filter(topic => counts.get(topic) === 0)
    if (missing.length > 0) this.#fetching.fault(`topic ${missing.join(', ')} is missing`)
    else if (positions.length === 0) this.#fetching.fault(null)
  }

  /** Heartbeats until the group is parted anew. @throws KafkaFault */
  async #keep(): Promise<void> {
    const { group, heartbeatMs, sessionMs } = this.#how
    let looked = this.#cluster.clock.now()
    while (!this.#isClosed) {
      await this.#pause(heartbeatMs)
      const { memberId, generation, isLeader, counts } = this.#membership!
      if (this.#isClosed) return
      try {
        const link = await this.#coordinator()
        const beat = { groupId: group, groupGenerationId: generation, memberId }
        const { errorCode } = await link.call<{ errorCode: number }>('Heartbeat', beat, Math.max(sessionMs, 1_000), {
          isUnchecked: true
        })
        if (errorCode !== 0) throw new KafkaFault(errorCode, `group ${group}`)
      } catch (error) {
        const code = codeOf(error)
        if (code === codes.rebalancing || code === codes.unknownMember || code === codes.illegalGeneration) throw error
        if (this.#isClosed) return
        // The coordinator is away or moves; the membership lives as long as the session, whoever keeps it.
        this.#stumbled(error)
        continue
      }
      // Only the one who parts the group can part it anew.
      const isMissing = [...counts.values()].includes(0)
      if (
        !isLeader ||
        this.#cluster.clock.now() - looked < Math.min(this.#refreshMs, isMissing ? 1_000 : this.#refreshMs)
      )
        continue
      looked = this.#cluster.clock.now()
      const now = await this.#counts([...counts.keys()])
      for (const [topic, count] of now) if (count > (counts.get(topic) ?? 0)) return
    }
  }

  async #coordinator(): Promise<Link> {
    if (this.#link?.isReady === true) return this.#link
    const node = await this.#cluster.coordinator(this.#how.group)
    const link = await node.own()
    if (this.#isClosed) {
      link.close()
      throw new Undelivered('unavailable', 'closed')
    }
    this.#linkNode = node
    this.#link = link
    return link
  }

  async #counts(topics: readonly string[]): Promise<Map<string, number>> {
    const counts = new Map<string, number>()
    for (const topic of topics) {
      try {
        counts.set(topic, (await this.#cluster.refresh(topic)).leaders.length)
      } catch (error) {
        if (!(error instanceof Undelivered) || error.reason !== 'misconfigured') throw error
        counts.set(topic, 0)
      }
    }
    return counts
  }

  /** Also over when it is closed. */
  #pause(ms: number): Promise<void> {
    if (this.#isClosed) return Promise.resolve()
    return new Promise(resolve => {
      const cancel = this.#cluster.clock.after(ms, resolve)
      this.#wake = () => {
        cancel()
        resolve()
      }
    })
  }
}
