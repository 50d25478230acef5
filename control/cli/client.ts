import { parseExact } from '../../config/exactJson.ts'
import type { Json } from './documents.ts'

/** The management interface as the command line calls it. */
export interface Client {
  /** @throws CallFailed when there is no management interface, or the key opens none */
  check(): Promise<void>
  /** The document and its revision's ETag; null: there is none (404). @throws CallFailed */
  read(path: string): Promise<{ readonly body: Json; readonly etag: string | null } | null>
  /** @param etag of the revision that was read; another present one is refused. @throws CallFailed */
  write(
    method: 'POST' | 'PUT',
    path: string,
    body: unknown,
    given?: { etag?: string | null; type?: string }
  ): Promise<Json>
}

/** A call that was answered otherwise than hoped for, or not at all. */
export class CallFailed extends Error {}

const ANSWER_MS = 60_000

/** @param url base URL of a management interface */
export function client(url: string, accessKey: string): Client {
  const base = url.replace(/\/+$/, '')

  async function call(method: string, path: string, headers: Record<string, string>, body?: string) {
    let answer: Response
    try {
      answer = await fetch(base + path, {
        method,
        headers: { Authorization: `Bearer ${accessKey}`, Accept: 'application/json', ...headers },
        signal: AbortSignal.timeout(ANSWER_MS),
        ...(body === undefined ? {} : { body })
      })
    } catch (cause) {
      const reason = cause instanceof Error && cause.cause instanceof Error ? cause.cause.message : String(cause)
      throw new CallFailed(`${base} cannot be reached: ${reason}`)
    }
    const text = await answer.text()
    if (answer.ok || answer.status === 404) return { answer, text }
    throw new CallFailed(`${method} ${path} was answered ${answer.status}: ${told(text)}`)
  }

  return {
    async check() {
      const { answer, text } = await call('GET', '/api/users/me', {})
      if (answer.status === 404 || !isUser(text)) throw new CallFailed(`${base} is no management interface`)
    },
    async read(path) {
      const { answer, text } = await call('GET', path, {})
      return answer.status === 404 ? null : { body: parsed(text), etag: answer.headers.get('etag') }
    },
    async write(method, path, body, { etag = null, type = 'application/json' } = {}) {
      const headers = { 'Content-Type': type, ...(etag === null ? {} : { 'If-Match': etag }) }
      const { answer, text } = await call(method, path, headers, JSON.stringify(body))
      if (answer.status === 404) throw new CallFailed(`${method} ${path} was answered 404: ${told(text)}`)
      return parsed(text)
    }
  }
}

/** @throws CallFailed */
function parsed(text: string): Json {
  try {
    return parseExact(text)
  } catch {
    throw new CallFailed(`the answer is no JSON: ${text.slice(0, 100)}`)
  }
}

function isUser(text: string): boolean {
  try {
    return typeof JSON.parse(text).user_permissions === 'object'
  } catch {
    return false
  }
}

/** What an error answer says, its faults included. */
function told(text: string): string {
  try {
    const { Message, faults = [] } = JSON.parse(text) as {
      Message: string
      faults?: { pointer: string; message: string }[]
    }
    return [Message, ...faults.slice(0, 20).map(({ pointer, message }) => `  ${pointer} ${message}`)].join('\n')
  } catch {
    return text.slice(0, 500)
  }
}
