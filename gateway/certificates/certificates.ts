import type { KeyObject, X509Certificate } from 'node:crypto'
import type { Certificate as Told } from '../../config/shape/certificate.ts'

/** Body of a stored `certificate` document; its id is the certificate's. */
export interface CertificateRecord {
  /** What is told of it. */
  readonly details: Told
  /** The chain, leaf first, or a bare public key. */
  readonly pem: string
  /** PKCS#8 PEM, sealed (`vault.ts`) for the place `certificate/<id>`; '' for none. */
  readonly sealedKey: string
}

/** A certificate as the data plane uses it, from the store or from a PEM file. */
export interface Certificate {
  /** The store's id, or the file. */
  readonly id: string
  /** '' for a file: it belongs to nobody, and everybody whose documents may name files can use it. */
  readonly org: string
  /** Leaf first; empty: a bare public key. */
  readonly chain: readonly X509Certificate[]
  readonly publicKey: KeyObject
  /** All of the chain, leaf first, or the public key. */
  readonly pem: string
  /** PKCS#8 PEM; null: there is none, or it cannot be opened with this installation's secret. */
  readonly privateKey: string | null
  /** SHA-256 of the leaf's DER (of a bare key, of its SPKI), hexadecimal. */
  readonly fingerprint: string
  /** Milliseconds since the epoch; of a bare key 0 and Infinity. */
  readonly startsMs: number
  readonly expiresMs: number
}

/**
 * The certificates of the data plane. Those that documents and settings name are *held*: kept in memory, read again when
 * they change, so that a request never waits for them.
 */
export interface Certificates {
  /**
   * By its id, or by the path of a PEM file that something holds. Null: unknown, unreadable, or another organisation's.
   * `org` null: of any.
   * @throws Unavailable (or rejects with it)
   */
  get(id: string, org: string | null): Certificate | null | Promise<Certificate | null>
  /** One that is held; null: it is not, or as `get` says. */
  held(id: string, org: string | null): Certificate | null
  /**
   * Holds these instead of what `owner` held; [] lets go. Resolves once they are read. A file is read only where `files`
   * says that the owner may name one.
   */
  hold(owner: string, ids: readonly string[], files: 'with files' | 'no files'): Promise<void>
  /** Everything that is held, each once. */
  all(): readonly Certificate[]
  /** Reads held files again; answers what could not be read, each naming its file. */
  reload(): Promise<readonly string[]>
  /** Heard after held ones have changed. The answer ends the listening. */
  onChange(listener: () => void): () => void
  close(): void
}

/** An id that is the path of a file. */
export function isFile(id: string): boolean {
  return id.includes('/')
}
