import type { Log } from '../../config/world.ts'
import { Conflict, Unavailable } from '../store/store.ts'
import type { Certificate, CertificateRecord, Certificates } from './certificates.ts'
import { calledName, lastTold, type Notice, Notices, type NoticesGiven, nameOf, noticeLastsMs } from './notices.ts'

export interface SweepGiven extends NoticesGiven {
  readonly certificates: Pick<Certificates, 'all'>
  readonly log: Log
}

/** No check cool-down makes it look more often. */
const LEAST_MS = 1_000
/** While the store is away, it is asked again so often. */
const AGAIN_MS = 10_000

/**
 * Looks at every certificate of the store and at every file that is held, at once and then each check cool-down; one
 * thread of a process does. The answer ends it.
 */
export function sweeping(given: SweepGiven): () => Promise<void> {
  const { store, certificates, settings, clock, log } = given
  const { check_cooldown_seconds: seconds } = settings.security.certificate_expiry_monitor
  const notices = new Notices(given)
  let isOver = false
  let cancel = () => {}
  let running = run()

  async function run(): Promise<void> {
    let ms = Math.max(LEAST_MS, seconds * 1000)
    try {
      await tellStored()
      await tellFiles()
      await forget()
    } catch (cause) {
      if (!(cause instanceof Unavailable)) log.error('certificates could not be looked at', { cause: String(cause) })
      ms = Math.min(ms, AGAIN_MS)
    }
    if (isOver) return
    cancel = clock.after(ms, () => {
      running = run()
    })
  }

  async function tellStored(): Promise<void> {
    for await (const documents of store.each<CertificateRecord>('certificate', {}))
      for (const { id, org, body } of documents) {
        if (isOver) return
        const { fingerprint, not_after, subject, dns_names } = body.details
        const expiresMs = Date.parse(not_after)
        if (isBareKey(body) || notices.ending(expiresMs) === null) continue
        const name = calledName(subject.CommonName, dns_names[0], fingerprint)
        await notices.tell({ id, org, fingerprint, name, expiresMs, role: '', apiId: '' })
      }
  }

  async function tellFiles(): Promise<void> {
    for (const file of certificates.all().filter(isFromFile)) {
      if (isOver) return
      const { id, org, fingerprint, expiresMs } = file
      if (notices.ending(expiresMs) === null) continue
      const name = nameOf(file.chain[0]!, fingerprint)
      await notices.tell({ id, org, fingerprint, name, expiresMs, role: '', apiId: '' })
    }
  }

  /** Notices of certificates that nobody uses and that are nowhere any more. */
  async function forget(): Promise<void> {
    const lasts = noticeLastsMs(settings)
    for await (const documents of store.each<Notice>('notice', {}))
      for (const { id, rev, body } of documents) {
        if (isOver) return
        if (clock.now() - lastTold(body) <= lasts) continue
        try {
          await store.commit([{ kind: 'notice', id, body: null, expect: rev }])
        } catch (cause) {
          // It was told once more.
          if (!(cause instanceof Conflict)) throw cause
        }
      }
  }

  return async () => {
    isOver = true
    cancel()
    await running
  }
}

/** A bare public key has no end. */
export function isBareKey({ pem }: Pick<CertificateRecord, 'pem'>): boolean {
  return !/^-----BEGIN (?:X509 )?CERTIFICATE-----/m.test(pem)
}

/** A certificate, not a bare key, of a file. */
export function isFromFile({ org, chain }: Certificate): boolean {
  return org === '' && chain.length > 0
}
