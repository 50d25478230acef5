import type { X509Certificate } from 'node:crypto'
import { HASH } from '../../../config/domain.ts'
import type { GatewaySettings } from '../../../config/settings.ts'
import type { Clock } from '../../../config/world.ts'
import type { Api, Target as ApiTarget, ForDomain } from '../../api.ts'
import { type Certificate, type Certificates, isFile } from '../../certificates/certificates.ts'
import { listed } from '../../certificates/named.ts'
import type { CertificateWatch } from '../../certificates/watch.ts'
import type { TlsProfile } from '../upstream.ts'
import { closest } from './domains.ts'
import { pinOf, TlsRefused, TlsWay } from './way.ts'

export interface ProfileTools {
  readonly settings: GatewaySettings
  readonly clock: Clock
  readonly certificates: Certificates
  readonly watch: CertificateWatch
}

/** How an API speaks to one of its https targets. */
export function tlsProfile(api: Api, target: ApiTarget, tools: ProfileTools): TlsProfile {
  return new Profile(api, target, tools)
}

/** What an API says goes before what the settings say. `org` null: of any organisation. */
interface Said<T> {
  readonly value: T
  readonly org: string | null
  readonly files: boolean
}

class Profile implements TlsProfile {
  readonly http2: boolean
  private readonly api: Api
  private readonly target: ApiTarget
  private readonly tools: ProfileTools
  private readonly certificate: Said<string> | null
  private readonly pins: Said<readonly string[]> | null
  private readonly news: News
  private seen = -1
  private current: TlsWay | null = null

  constructor(api: Api, target: ApiTarget, tools: ProfileTools) {
    const { tls } = api.upstream
    const { security, proxy_enable_http2 } = tools.settings
    this.api = api
    this.target = target
    this.tools = tools
    this.http2 = tls.http2 ?? proxy_enable_http2
    const { certificates, pinned_public_keys } = security
    this.certificate = this.said(
      tls.certificates,
      forDomains(certificates.upstream, value => value)
    )
    this.pins = this.said(tls.pins, forDomains(pinned_public_keys, listed))
    this.news = newsOf(tools.certificates)
  }

  get way(): TlsWay {
    if (this.seen !== this.news.count || this.current === null) {
      this.seen = this.news.count
      const next = this.read()
      // The same again keeps its session and its context.
      if (this.current === null || next.key !== this.current.key) this.current = next
    }
    return this.current
  }

  onChange(listener: () => void): () => void {
    this.news.listeners.add(listener)
    return () => void this.news.listeners.delete(listener)
  }

  private said<T>(ofApi: readonly ForDomain<T>[], ofGateway: readonly ForDomain<T>[]): Said<T> | null {
    const { hostname, port } = this.target
    const own = closest(ofApi, hostname, port)
    if (own !== null) return { value: own, org: this.api.orgId, files: this.api.source !== 'store' }
    const general = closest(ofGateway, hostname, port)
    return general === null ? null : { value: general, org: null, files: true }
  }

  private read(): TlsWay {
    const { hostname, host, protocol } = this.target
    const { clock } = this.tools
    const { insecure, ciphers, minVersion, maxVersion, checksCommonName } = this.api.upstream.tls
    const certificate = this.certificate === null ? null : this.shown(this.certificate)
    const fault = certificate instanceof TlsRefused ? certificate : null
    const shows = certificate instanceof TlsRefused ? null : certificate
    const pins = this.pins === null ? null : this.pinned(this.pins)
    return new TlsWay({
      origin: `${protocol}//${host}`,
      host: hostname.startsWith('[') ? hostname.slice(1, -1) : hostname,
      certificate: shows,
      pins: pins === null ? null : pins.there,
      pinsMissing: pins === null ? [] : pins.missing,
      insecure,
      ciphers,
      minVersion,
      maxVersion,
      checksCommonName,
      fault,
      used: leaf => this.used(leaf, shows),
      now: () => clock.now()
    })
  }

  /** Whatever is missing is said, and nothing goes out without it. */
  private shown(said: Said<string>): Certificate | TlsRefused {
    const id = said.value
    const found = this.held(id, said)
    if (found === null) return new TlsRefused(`the client certificate ${id} is not there`)
    if (found.chain.length === 0) return new TlsRefused(`the client certificate ${id} is a bare public key`)
    if (found.privateKey === null) return new TlsRefused(`the client certificate ${id} has no private key`)
    return found
  }

  private pinned(said: Said<readonly string[]>): { there: ReadonlySet<string>; missing: string[] } {
    const there = new Set<string>()
    const missing: string[] = []
    for (const pin of said.value) {
      const found = pin.startsWith(HASH) ? null : this.held(pin, said)
      if (found !== null) there.add(pinOf(found))
      else if (pin.startsWith(HASH)) there.add(pin)
      else missing.push(pin)
    }
    return { there, missing }
  }

  /** A file that the settings hold is nothing for an API that may name none. */
  private held(id: string, { org, files }: Said<unknown>): Certificate | null {
    return isFile(id) && !files ? null : this.tools.certificates.held(id, org)
  }

  private used(leaf: X509Certificate | undefined, shown: Certificate | null): void {
    const { watch } = this.tools
    const { id: apiId, orgId: org } = this.api
    if (leaf !== undefined)
      watch.used({ id: leaf.fingerprint256.replaceAll(':', '').toLowerCase(), leaf, role: 'upstream', apiId, org })
    if (shown !== null) watch.used({ id: shown.id, leaf: shown.chain[0]!, role: 'upstream', apiId, org })
  }
}

function forDomains<T>(given: Readonly<Record<string, string>>, read: (value: string) => T): ForDomain<T>[] {
  return Object.entries(given).map(([domain, value]) => ({ domain: domain.toLowerCase(), value: read(value) }))
}

/** Tells of changed certificates. Profiles come and go with their APIs; one listener serves all of them. */
interface News {
  count: number
  readonly listeners: Set<() => void>
}

const known = new WeakMap<Certificates, News>()

function newsOf(certificates: Certificates): News {
  let news = known.get(certificates)
  if (news === undefined) {
    const made: News = { count: 0, listeners: new Set() }
    certificates.onChange(() => {
      made.count++
      for (const listener of [...made.listeners]) listener()
    })
    known.set(certificates, made)
    news = made
  }
  return news
}
