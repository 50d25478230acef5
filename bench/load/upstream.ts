import { fileURLToPath } from 'node:url'
import type { Place } from './machine.ts'
import { nginx, startNginx } from './nginx.ts'
import { type Running, start } from './processes.ts'

/** 57 bytes. */
const short = '{"id":7,"name":"bolt M8","stock":1250,"price":"0.35 EUR"}'

/** Answers everything with 57 bytes of JSON: nginx where it is installed, else Node. */
export function startUpstream(place: Place = 'others'): Promise<Running> {
  if (nginx === null) return startNode(0, place)
  return startNginx('upstream', place, '', `default_type application/json; return 200 '${short}';`)
}

/** Answers GET with so many bytes, and takes bodies of any length in. */
export function startLargeUpstream(bytes: number): Promise<Running> {
  return startNode(bytes, 'others')
}

function startNode(bytes: number, place: Place): Promise<Running> {
  const file = fileURLToPath(new URL('servers/upstream.ts', import.meta.url))
  return start({
    name: 'upstream',
    place,
    program: process.execPath,
    args: [file, String(bytes), short],
    port: null
  })
}
