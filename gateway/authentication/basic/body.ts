import type { BasicScheme } from '../../api.ts'
import type { Exchange } from '../../exchange.ts'
import { type Refusal, refusal } from '../../refusals.ts'
import type { wholeBody } from '../wholeBody.ts'
import type { UserAndPassword } from './header.ts'

/** User name and password in a body (semantics §6.4): the first group of an expression each. */

type Expressions = NonNullable<BasicScheme['body']>

const bad = (text: string) => refusal('basic_body', 400, text)
const noUser = bad('Body do not contain username')
const noPassword = bad('Body do not contain password')
const noUserGroup = bad('username should be inside regexp match group')
const noPasswordGroup = bad('password should be inside regexp match group')

/** Resolves to what the body says, or to what ends the request. */
export async function readBody(
  x: Exchange,
  expressions: Expressions,
  whole: ReturnType<typeof wholeBody>
): Promise<UserAndPassword | NonNullable<Awaited<ReturnType<typeof whole>>>> {
  if (x.bodyLength === 0) return noUser
  return (await whole(x)) ?? credentialsIn(x.body!.bytes.toString(), expressions)
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
