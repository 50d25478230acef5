import type { GatewaySettings } from '../../../config/settings.ts'
import type { Clock } from '../../../config/world.ts'
import type { BasicScheme } from '../../api.ts'
import { ANSWERED, type Exchange, type Reply } from '../../exchange.ts'
import { type Bounds, giveBack, readWhole } from '../../proxy/readWhole.ts'
import { type Refusal, refusal } from '../../refusals.ts'
import type { UserAndPassword } from './header.ts'

/** User name and password in a body (semantics §6.4): the first group of an expression each. */

type Expressions = NonNullable<BasicScheme['body']>

const bad = (text: string) => refusal('basic_body', 400, text)
const noUser = bad('Body do not contain username')
const noPassword = bad('Body do not contain password')
const noUserGroup = bad('username should be inside regexp match group')
const noPasswordGroup = bad('password should be inside regexp match group')

/** Longest body that is looked into. */
const MOST_BYTES = 4 * 1024 * 1024

export function bodyBounds({ max_request_body_size, read_timeout }: GatewaySettings['http_server_options']): Bounds {
  return {
    mostBytes: max_request_body_size > 0 ? Math.min(max_request_body_size, MOST_BYTES) : MOST_BYTES,
    readMs: read_timeout > 0 ? read_timeout * 1000 : Number.POSITIVE_INFINITY
  }
}

/** Reads it into `x.body`, from where it goes up. Resolves to what it says, or to what ends the request. */
export async function readBody(
  x: Exchange,
  expressions: Expressions,
  bounds: Bounds,
  clock: Clock
): Promise<UserAndPassword | NonNullable<Awaited<ReturnType<typeof readWhole>>>> {
  if (x.gone) return ANSWERED
  if (x.bodyLength === 0) return noUser
  const outcome = await readWhole(x, bounds, clock)
  if (outcome !== undefined) return outcome
  x.res.once('close', ended)
  return credentialsIn(x.body!.bytes.toString(), expressions)
}

function ended(this: Reply): void {
  giveBack(this.exchange!)
}

function credentialsIn(text: string, { user, password }: Expressions): UserAndPassword | Refusal {
  const name = user.first(text)
  if (name === null) return noUser
  if (user.groups === 0) return noUserGroup
  const word = password.first(text)
  if (word === null) return noPassword
  if (password.groups === 0) return noPasswordGroup
  return { user: name, password: word }
}
