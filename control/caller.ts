import type { Person } from './users.ts'

/** Who called, as far as a door found out. */
export interface Caller {
  /** For the audit: an e-mail address, or the name of the secret that opened the door; '' at the open door. */
  readonly name: string
  /** The management user; null behind doors that know none. */
  readonly user: Person | null
  /** The organisation that the call is bound to; null: any. */
  readonly org: string | null
  /** Administrator of its organisation, or beyond organisations. */
  readonly admin: boolean
  /** The client's address, a trusted proxy's word included. */
  readonly address: string
}

/** The organisation that documents of this caller belong to; `default` where neither caller nor document names one. */
export function orgOf({ org }: Caller, named: string | undefined): string {
  return org ?? (named || 'default')
}

/** Whether a document of this organisation may be seen and touched. */
export function owns({ org }: Caller, documentOrg: string): boolean {
  return org === null || org === documentOrg
}
